//! The configuration of a running proxy: watches the file, judges every change, and says in one line what became of it.
//!
//! Applies nothing itself: new settings are handed to the run loop, which also ends the process when that is needed.
//! Whatever is wrong with the file, the configuration in effect stays.

use std::path::Path;
use std::time::Duration;

use tracing::{error, info, warn};

use super::complete::Completed;
use super::effective::Effective;
use super::reload::{Judgement, Verdict, judge};
use crate::cli::{CommandLine, flags};
use crate::config_watch::{ConfigWatch, FileChange};
use crate::settings::Settings;

/// What the run loop has to do about a change.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Nothing: the configuration in effect stays.
    Keep,
    /// Take these settings over.
    Apply {
        /// The settings.
        settings: Box<Settings>,
        /// The configuration they come from, as it is in effect now.
        effective: Box<Effective>,
    },
    /// End the process, so that it is started anew with the changed file.
    Restart,
}

/// A configuration in effect and a watch on its file.
#[derive(Debug)]
pub struct LiveConfig {
    line: CommandLine,
    path: String,
    in_effect: Effective,
    watch: ConfigWatch,
}

impl LiveConfig {
    /// Starts watching the file `--config` names; `content` is what `completed` was made of.
    pub fn new(line: &CommandLine, completed: &Completed, content: Vec<u8>) -> Self {
        let path = line.text(flags::CONFIG);
        let watch = ConfigWatch::new(Path::new(&path), content);
        Self { line: line.clone(), path, in_effect: completed.effective.clone(), watch }
    }

    /// Waits for the next change as [`ConfigWatch::next`] does, logs it in one line and tells what to do about it.
    pub fn next(&mut self, timeout: Duration) -> Option<Action> {
        self.watch.next(timeout).map(|change| self.react(&change))
    }

    fn react(&mut self, change: &FileChange) -> Action {
        let file = self.path.as_str();
        match change {
            FileChange::Content(bytes) => {
                let judgement = judge(&self.line, &self.in_effect, bytes);
                log(file, &judgement);
                self.take(judgement.verdict)
            }
            FileChange::Unreadable(reason) => {
                warn!(file, %reason, "Configuration file cannot be read, the configuration in effect stays");
                Action::Keep
            }
        }
    }

    fn take(&mut self, verdict: Verdict) -> Action {
        match verdict {
            Verdict::Unchanged | Verdict::Refused(_) => Action::Keep,
            Verdict::Apply { settings, effective, .. } => {
                self.in_effect = (*effective).clone();
                Action::Apply { settings, effective }
            }
            Verdict::Restart { .. } => Action::Restart,
        }
    }
}

/// One line for one change; warnings about the file are a field of it.
fn log(file: &str, judgement: &Judgement) {
    let warnings = match judgement.warnings.as_slice() {
        [] => None,
        some => Some(some.join("; ")),
    };
    match &judgement.verdict {
        Verdict::Unchanged => {
            info!(file, warnings, "Configuration file changed, but nothing in it that counts");
        }
        Verdict::Apply { changed, .. } => {
            let fields = changed.join(", ");
            info!(file, fields, warnings, "Configuration file changed, applying it");
        }
        Verdict::Restart { because_of } => {
            let fields = because_of.join(", ");
            info!(
                file,
                fields, warnings, "Configuration file changed in fields that need a restart, exiting"
            );
        }
        Verdict::Refused(refusal) => {
            error!(err = %refusal, file, warnings, "Configuration file is refused, the configuration in effect stays");
        }
    }
}

#[cfg(test)]
mod tests;
