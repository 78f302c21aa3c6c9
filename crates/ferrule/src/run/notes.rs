//! Writes the notes of backends to the log.

use crate::events::{self, Recorder};
use ferrule_backends::{Note, Severity};
use tracing::{error, info, warn};

/// Logs one note.
pub(super) fn log(note: &Note) {
    let Note { severity, message, family, detail, event: _ } = note;
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

/// Logs some notes, and records those that are Events as well.
pub(super) fn report_all(notes: &[Note], recorder: &Recorder) {
    log_all(notes);
    for note in notes {
        if let Some(reason) = note.event {
            recorder.record(events::backend_note(recorder.node(), reason, note));
        }
    }
}
