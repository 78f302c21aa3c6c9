//! What to do about a changed configuration file: nothing, apply it, restart, or refuse it.
//!
//! Pure: bytes in, verdict out. Noticing the change is [`crate::config_watch`]'s work, acting on it the run loop's.

use super::complete::{CompleteError, complete_with_file};
use super::effective::Effective;
use super::fields::{self, OnChange};
use crate::cli::{CommandLine, flags};
use crate::settings::{Problems, Settings};

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

/// Why a changed file is not taken.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It cannot be read or decoded.
    #[error(transparent)]
    Complete(#[from] CompleteError),
    /// It is decoded and wrong.
    #[error(transparent)]
    Invalid(#[from] Problems),
}

/// Judges a file's new content against the configuration in effect.
pub fn judge(line: &CommandLine, in_effect: &Effective, bytes: &[u8]) -> Verdict {
    let (effective, settings) = match read(line, bytes) {
        Ok(read) => read,
        Err(refusal) => return Verdict::Refused(refusal),
    };
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

fn read(line: &CommandLine, bytes: &[u8]) -> Result<(Effective, Settings), Refusal> {
    let completed = complete_with_file(line, bytes)?;
    let settings = Settings::resolve(&completed, &line.text(flags::MASTER))?;
    Ok((completed.effective, settings))
}

/// The fields whose effective value differs, with what that asks for.
fn changed_fields(before: &Effective, after: &Effective) -> Vec<(&'static str, OnChange)> {
    let (before, after) = (before.to_written(), after.to_written());
    fields::all()
        .filter(|field| field.value(&before) != field.value(&after))
        .map(|field| (field.path, field.on_change))
        .collect()
}

#[cfg(test)]
mod tests;
