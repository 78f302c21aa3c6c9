//! Reloading the configuration file of a running proxy: every change is judged, and logged in one line.
//!
//! Applies nothing itself: what must be done is handed to the run loop, which also ends the process when that is needed.
//! Whatever is wrong with the file, the configuration in effect stays.

use std::path::Path;
use std::time::Duration;

use ferrule_config::cli::{CommandLine, flags};
use ferrule_config::file_watch::{FileChange, FileWatch};
use ferrule_config::{Completed, Effective, Judgement, Reload, judge};
use tracing::{error, info, warn};

use ferrule_model::with_causes;

/// A configuration in effect and a watch on its file.
#[derive(Debug)]
pub struct LiveConfig {
    line: CommandLine,
    path: String,
    in_effect: Effective,
    watch: FileWatch,
}

impl LiveConfig {
    /// Starts watching the file `--config` names; `content` is what `completed` was made of.
    pub fn new(line: &CommandLine, completed: &Completed, content: Vec<u8>) -> Self {
        let path = line.text(flags::CONFIG);
        let watch = FileWatch::new(Path::new(&path), content);
        Self { line: line.clone(), path, in_effect: completed.effective.clone(), watch }
    }

    /// Waits for the next change as [`FileWatch::next`] does and logs it; `None` if nothing must be done.
    pub fn next(&mut self, timeout: Duration) -> Option<Reload> {
        let file = self.path.as_str();
        match self.watch.next(timeout)? {
            FileChange::Content(bytes) => {
                let judgement = judge(&self.line, &self.in_effect, &bytes);
                log(file, &judgement);
                let reload = judgement.reload.ok().flatten();
                if let Some(Reload::Apply { effective, .. }) = &reload {
                    self.in_effect = (**effective).clone();
                }
                reload
            }
            FileChange::Unreadable(reason) => {
                warn!(file, %reason, "Configuration file cannot be read, the configuration in effect stays");
                None
            }
            FileChange::Unwatched(err) => {
                warn!(err, file, "Cannot watch the configuration file, it is read every second");
                None
            }
        }
    }
}

/// One line for one change; warnings about the file are a field of it.
fn log(file: &str, judgement: &Judgement) {
    let warnings = match judgement.warnings.as_slice() {
        [] => None,
        some => Some(some.join("; ")),
    };
    match &judgement.reload {
        Ok(None) => info!(file, warnings, "Configuration file changed, no effective change"),
        Ok(Some(Reload::Apply { changed, .. })) => {
            let fields = changed.join(", ");
            info!(file, fields, warnings, "Configuration file changed, applying it");
        }
        Ok(Some(Reload::Restart { because_of })) => {
            let fields = because_of.join(", ");
            info!(
                file,
                fields, warnings, "Configuration file changed in fields that need a restart, exiting"
            );
        }
        Err(invalid) => {
            let err = with_causes(invalid);
            error!(err, file, warnings, "Configuration file is invalid, the configuration in effect stays");
        }
    }
}

#[cfg(test)]
mod tests;
