//! A folder of manifests as the source of what is served.

use std::sync::Arc;
use std::sync::mpsc::SyncSender as Sender;
use std::time::{Duration, Instant};

use ferrule_kernel::threads;
use ferrule_watch::file::{FileProblem, ManifestFolder, Reading};
use ferrule_watch::{ChangeBatch, MassRemoval};
use tracing::{error, info, warn};

use super::Event;
use crate::status::Status;
use ferrule_model::{ReportOnce, with_causes};

/// How often the folder is read without a notification: the target of a symbolic link may change unseen.
const RESCAN_INTERVAL: Duration = Duration::from_secs(30);

/// How often a folder that went away, or cannot be watched, is read.
const MISSING_FOLDER_INTERVAL: Duration = Duration::from_secs(1);

/// Goes on watching a folder that was read; ends with the loop.
pub(super) fn watch(
    mut folder: ManifestFolder,
    events: Sender<Event>,
    status: Arc<Status>,
) -> std::io::Result<()> {
    let work = move || {
        let mut logged = Vec::new();
        let mut failure = ReportOnce::default();
        loop {
            let reading = folder.read();
            // A folder that is not there cannot be watched.
            let timeout = if reading.is_folder_missing { MISSING_FOLDER_INTERVAL } else { RESCAN_INTERVAL };
            if let Some(mass) = &reading.mass_removal {
                status.metrics.mass_removal(mass.kind);
            }
            let batch = log_problems(reading, &mut logged);
            let is_empty = batch.changes.is_empty() && batch.diagnostics.is_empty();
            if !is_empty && events.send(Event::Changes(batch)).is_err() {
                return;
            }
            // A thread that ended here would leave a proxy that seems healthy and serves an old state.
            if let Err(error) = folder.wait(timeout) {
                let err = with_causes(&error);
                if failure.is_new(err.clone()) {
                    error!(err, "Cannot watch the folder of manifests, reading it every second");
                }
                std::thread::park_timeout(MISSING_FOLDER_INTERVAL);
            } else {
                failure.is_over();
            }
        }
    };
    threads::spawn("manifests", work).map(drop)
}

/// Reads the folder for the first time.
pub(super) fn read(folder: &mut ManifestFolder) -> ChangeBatch {
    let began = Instant::now();
    let batch = log_problems(folder.read(), &mut Vec::new());
    info!(v = 2, changes = batch.changes.len(), took = ?began.elapsed(), "Read manifests");
    batch
}

/// Logs problems with files that the last reading did not have; the rest is for the loop.
fn log_problems(reading: Reading, logged: &mut Vec<FileProblem>) -> ChangeBatch {
    let before = std::mem::replace(logged, reading.problems.clone());
    for problem in reading.problems.iter().filter(|problem| !before.contains(problem)) {
        if problem.is_note() {
            info!(problem = %problem, "Manifest");
        } else {
            error!(err = %problem, "Manifest");
        }
    }
    if let Some(MassRemoval { kind, removed, known }) = reading.mass_removal {
        warn!(%kind, removed, known, "The folder lacks more than half of what was known, removing that now");
    }
    reading.batch
}
