//! Signals that end the program. As process 1 of a container nothing ends it but a handler.
//!
//! The loop is asked to end, which it does between two syncs. If that takes long, or a second signal comes, the program ends all
//! the same: rules are written in commits that happen or not, and what is half done is finished by the next process.

use std::io;
use std::sync::mpsc::{SyncSender as Sender, TrySendError};
use std::time::Duration;

use ferrule_kernel::subprocess;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Ended, Event, log_end};
use crate::logging::LogHandle;
use ferrule_kernel::threads;

/// How long the loop has to end by itself, beside what connections get. It may be in a sync, or wait for a program that gives it
/// credentials.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);
/// How often a full queue is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Sends SIGTERM and SIGINT to the loop, and ends the program if the loop does not, once connections had their grace time.
pub fn listen(events: Sender<Event>, log: LogHandle, grace: Duration) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let mut signals = {
        let _entered = runtime.enter();
        Signals { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? }
    };
    let work = move || {
        let name = runtime.block_on(async {
            let name = signals.next().await;
            signals.insist(&events, name, EXIT_TIMEOUT + grace).await;
            name
        });
        log_end(Ended::Signal(name));
        log.flush();
        subprocess::kill_all();
        std::process::exit(0);
    };
    threads::spawn("signals", work).map(drop)
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// Returns when the loop has had its time, or at a second signal.
    async fn insist(&mut self, events: &Sender<Event>, name: &'static str, timeout: Duration) {
        let sending = async {
            while let Err(TrySendError::Full(_)) = events.try_send(Event::End(name)) {
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = sending => {}
            () = tokio::time::sleep(timeout) => {}
            _ = self.next() => {}
        }
    }
}
