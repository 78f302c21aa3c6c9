//! What to do about a changed configuration file: nothing, apply it, restart, or refuse it.
//!
//! Pure: bytes in, verdict out. Noticing the change is [`crate::config_watch`]'s work; [`super::live`] joins the two.

use super::complete::{CompleteError, complete_with_file};
use super::effective::Effective;
use super::fields::{self, OnChange};
use crate::causes::with_causes;
use crate::cli::CommandLine;
use crate::settings::{FlagOnly, Problems, Settings};

/// A verdict on a changed file, and what should be said beside it.
#[derive(Debug)]
pub struct Judgement {
    /// What the file asks for.
    pub verdict: Verdict,
    /// What a strict reader would have refused, and gates that will go away. Empty if the file could not be read.
    pub warnings: Vec<String>,
}

/// What a changed file asks for.
#[derive(Debug)]
pub enum Verdict {
    /// It means the same as before.
    Unchanged,
    /// Only fields changed that can be taken over live.
    Apply {
        /// The new settings.
        settings: Box<Settings>,
        /// The new configuration, to compare the next one with.
        effective: Box<Effective>,
        /// The fields that changed.
        changed: Vec<&'static str>,
    },
    /// A field changed that needs a new process; kube-proxy exits for any change.
    Restart {
        /// The fields that need it.
        because_of: Vec<&'static str>,
    },
    /// It is no valid configuration: the old one stays.
    Refused(Refusal),
}

/// Why a changed file is not taken. Its text has all causes in it, since it ends up in one line of the log.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It cannot be decoded.
    #[error("{}", with_causes(.0))]
    Complete(CompleteError),
    /// It is decoded and wrong.
    #[error("{0}")]
    Invalid(Problems),
}

/// Judges a file's new content against the configuration in effect.
pub fn judge(line: &CommandLine, in_effect: &Effective, bytes: &[u8]) -> Judgement {
    let completed = match complete_with_file(line, bytes) {
        Ok(completed) => completed,
        Err(error) => {
            return Judgement { verdict: Verdict::Refused(Refusal::Complete(error)), warnings: Vec::new() };
        }
    };
    let warnings = completed.strict_warnings.iter().chain(&completed.gate_warnings).cloned().collect();
    let verdict = match Settings::resolve(&completed, &FlagOnly::of(line)) {
        Ok(settings) => compare(in_effect, completed.effective, settings),
        Err(problems) => Verdict::Refused(Refusal::Invalid(problems)),
    };
    Judgement { verdict, warnings }
}

fn compare(in_effect: &Effective, effective: Effective, settings: Settings) -> Verdict {
    let changed = changed_fields(in_effect, &effective);
    let asking_for = |wanted: OnChange| -> Vec<&'static str> {
        changed.iter().filter(|(_, on_change)| *on_change == wanted).map(|(path, _)| *path).collect()
    };
    let because_of = asking_for(OnChange::Restart);
    let to_apply = asking_for(OnChange::Apply);
    if !because_of.is_empty() {
        Verdict::Restart { because_of }
    } else if to_apply.is_empty() {
        Verdict::Unchanged
    } else {
        Verdict::Apply { settings: Box::new(settings), effective: Box::new(effective), changed: to_apply }
    }
}

/// The fields whose effective value differs, with what that asks for. What only another mode looks at does not count.
fn changed_fields(before: &Effective, after: &Effective) -> Vec<(&'static str, OnChange)> {
    let (before, after) = (before.to_written(), after.to_written());
    fields::all()
        .filter(|field| field.counts_in(&after.mode))
        .filter(|field| field.value(&before) != field.value(&after))
        .map(|field| (field.path, field.on_change))
        .collect()
}

#[cfg(test)]
mod tests;
