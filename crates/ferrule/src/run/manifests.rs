//! A folder of manifests as the source of what is served.

use std::sync::Arc;
use std::sync::mpsc::SyncSender as Sender;
use std::time::{Duration, Instant};

use ferrule_watch::MassRemoval;
use ferrule_watch::file::{FileProblem, ManifestFolder, Reading};
use tracing::{error, info, warn};

use super::{Event, News};
use crate::causes::with_causes;
use crate::status::Status;
use crate::threads;

/// How often the folder is read without being told: what a link points to may change unseen.
const UNTOLD: Duration = Duration::from_secs(30);

/// How often a folder that went away is looked for.
const MISSING: Duration = Duration::from_secs(1);

/// Goes on watching a folder that was read; ends with the loop.
pub fn watch(mut folder: ManifestFolder, events: Sender<Event>, status: Arc<Status>) -> std::io::Result<()> {
    let work = move || {
        let mut told = Vec::new();
        let mut is_failure_told = false;
        loop {
            let reading = folder.read();
            // One that is not there cannot be watched, only looked for.
            let patience = if reading.is_folder_missing { MISSING } else { UNTOLD };
            if let Some(mass) = &reading.mass_removal {
                status.metrics.mass_removal(mass.kind);
            }
            let news = said(reading, &mut told);
            let is_news = !news.changes.is_empty() || !news.diagnostics.is_empty();
            if is_news && events.send(Event::News(news)).is_err() {
                return;
            }
            // A thread that ended here would leave a proxy that looks well and serves what once was.
            if let Err(error) = folder.wait(patience) {
                if !std::mem::replace(&mut is_failure_told, true) {
                    let err = with_causes(&error);
                    error!(err, "Cannot watch the folder of manifests, it is read every second");
                }
                std::thread::park_timeout(MISSING);
            } else {
                is_failure_told = false;
            }
        }
    };
    threads::spawn("manifests", work).map(drop)
}

/// Reads the folder and logs what is wrong with its files; the rest is for the loop.
pub fn read(folder: &mut ManifestFolder) -> News {
    let began = Instant::now();
    let news = said(folder.read(), &mut Vec::new());
    info!(v = 2, changes = news.changes.len(), took = ?began.elapsed(), "Read manifests");
    news
}

/// Logs what is wrong and was not told by the last reading.
fn said(reading: Reading, told: &mut Vec<FileProblem>) -> News {
    let before = std::mem::replace(told, reading.problems.clone());
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
    News { changes: reading.changes, diagnostics: reading.diagnostics }
}
