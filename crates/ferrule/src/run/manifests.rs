//! A folder of manifests as the source of what is served.

use std::sync::mpsc::SyncSender as Sender;
use std::time::{Duration, Instant};

use ferrule_watch::file::ManifestFolder;
use tracing::{error, info};

use super::{Event, News};
use crate::causes::with_causes;

/// How often the folder is read without being told: what a link points to may change unseen.
const UNTOLD: Duration = Duration::from_secs(30);

/// Goes on watching a folder that was read; ends with the loop.
pub fn watch(mut folder: ManifestFolder, events: Sender<Event>) -> std::io::Result<()> {
    let work = move || {
        loop {
            let news = read(&mut folder);
            let is_news = !news.changes.is_empty() || !news.diagnostics.is_empty();
            if is_news && events.send(Event::News(news)).is_err() {
                return;
            }
            if let Err(error) = folder.wait(UNTOLD) {
                error!(err = with_causes(&error), "The folder of manifests is no longer watched");
                return;
            }
        }
    };
    std::thread::Builder::new().name("manifests".to_owned()).spawn(work)?;
    Ok(())
}

/// Reads the folder and logs what is wrong with its files; the rest is for the loop.
pub fn read(folder: &mut ManifestFolder) -> News {
    let began = Instant::now();
    let reading = folder.read();
    if !reading.changes.is_empty() {
        info!(v = 2, changes = reading.changes.len(), took = ?began.elapsed(), "Read manifests");
    }
    for problem in &reading.problems {
        if problem.is_note() {
            info!(problem = %problem, "Manifest");
        } else {
            error!(err = %problem, "Manifest");
        }
    }
    News { changes: reading.changes, diagnostics: reading.diagnostics }
}
