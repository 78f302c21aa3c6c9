//! Writes the notes of backends to the log.

use ferrule_backends::{Note, Severity};
use tracing::{error, info, warn};

/// Logs one note.
pub(super) fn log(note: &Note) {
    let Note { severity, message, family, detail } = note;
    let (family, detail) = (family.map(|family| family.to_string()), detail.as_deref());
    let family = family.as_deref();
    match severity {
        Severity::Error => error!(family, detail, "{message}"),
        Severity::Warning => warn!(family, detail, "{message}"),
        Severity::Info => info!(family, detail, "{message}"),
        Severity::Verbose => info!(v = 2, family, detail, "{message}"),
    }
}

/// Logs some notes, in their order.
pub(super) fn log_all(notes: &[Note]) {
    notes.iter().for_each(log);
}
