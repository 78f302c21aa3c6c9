//! What to do about a changed configuration file: nothing, apply it, restart, or reject it.
//!
//! Pure: bytes in, decision out. Noticing the change is [`crate::file_watch`]'s work.

use super::complete::{CompleteError, complete_with_file};
use super::effective::Effective;
use super::fields::{self, OnChange};
use crate::cli::CommandLine;
use crate::settings::{FlagOnly, Problems, Settings};

/// The decision on a changed file, and what should be logged beside it.
#[derive(Debug)]
pub struct Judgement {
    /// What the file asks for; `None` if it means the same as before. An invalid file asks for nothing, and the
    /// configuration in effect stays.
    pub reload: Result<Option<Reload>, InvalidFile>,
    /// What a strict reader would have refused, and gates that will go away. Empty if the file could not be decoded.
    pub warnings: Vec<String>,
}

/// What a changed file asks of a running proxy.
#[derive(Clone, Debug, PartialEq)]
pub enum Reload {
    /// Only fields changed that can be taken over live.
    Apply {
        /// The new settings.
        settings: Box<Settings>,
        /// The new configuration, to compare the next one with.
        effective: Box<Effective>,
        /// The paths of the fields that changed.
        changed: Vec<&'static str>,
    },
    /// A field changed that needs a new process; kube-proxy exits for any change.
    Restart {
        /// The paths of the fields that need it.
        because_of: Vec<&'static str>,
    },
}

/// Why a changed file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidFile {
    /// It cannot be decoded.
    #[error(transparent)]
    Undecodable(CompleteError),
    /// Its values are wrong.
    #[error(transparent)]
    Wrong(Problems),
}

/// Judges a file's new content against the configuration in effect.
pub fn judge(line: &CommandLine, in_effect: &Effective, bytes: &[u8]) -> Judgement {
    let completed = match complete_with_file(line, bytes) {
        Ok(completed) => completed,
        Err(error) => {
            return Judgement { reload: Err(InvalidFile::Undecodable(error)), warnings: Vec::new() };
        }
    };
    let warnings = completed.strict_warnings.iter().chain(&completed.gate_warnings).cloned().collect();
    let reload = Settings::resolve(&completed, &FlagOnly::from_command_line(line))
        .map(|settings| compare(in_effect, completed.effective, settings))
        .map_err(InvalidFile::Wrong);
    Judgement { reload, warnings }
}

fn compare(in_effect: &Effective, effective: Effective, settings: Settings) -> Option<Reload> {
    let differing = differing_fields(in_effect, &effective);
    let asking_for = |wanted: OnChange| -> Vec<&'static str> {
        differing.iter().filter(|(_, on_change)| *on_change == wanted).map(|(path, _)| *path).collect()
    };
    let because_of = asking_for(OnChange::Restart);
    if !because_of.is_empty() {
        return Some(Reload::Restart { because_of });
    }
    let changed = asking_for(OnChange::Apply);
    (!changed.is_empty()).then(|| Reload::Apply {
        settings: Box::new(settings),
        effective: Box::new(effective),
        changed,
    })
}

/// The fields whose effective value differs, with what that asks for. What only another mode reads does not count.
fn differing_fields(before: &Effective, after: &Effective) -> Vec<(&'static str, OnChange)> {
    let (before, after) = (before.to_written(), after.to_written());
    fields::all()
        .filter(|field| field.counts_in(after.mode.in_effect()))
        .filter(|field| field.value(&before) != field.value(&after))
        .map(|field| (field.path, field.on_change))
        .collect()
}

#[cfg(test)]
mod tests;
