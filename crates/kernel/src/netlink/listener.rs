//! Listens to one kind of notification for as long as there is a receiver, whatever happens to the socket.

use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use super::NetlinkError;

/// How long after a failure another socket is opened.
const REOPEN_DELAY: Duration = Duration::from_secs(5);

/// How one kind of notification is listened to.
pub struct Listener<O, R> {
    /// Opens a subscription.
    pub open: O,
    /// Reads what came, without waiting.
    pub read: R,
}

/// What a listener delivers.
#[derive(Debug)]
pub enum Heard<E> {
    /// Notifications.
    Events(E),
    /// Listening fails, for the first time in a row or once more.
    Failed {
        /// Why.
        error: NetlinkError,
        /// How many times in a row it failed before.
        failures: u32,
    },
    /// There was a gap: what was missed is not known.
    Gap,
}

impl<O, R> Listener<O, R> {
    /// Listens until `deliver` breaks. A socket that failed once may fail for ever, and is ready to be
    /// read all the while: after a pause another is opened.
    pub fn run<W: AsFd, E>(
        mut self,
        mut watch: Option<W>,
        mut deliver: impl FnMut(Heard<E>) -> ControlFlow<()>,
    ) -> ControlFlow<()>
    where
        O: Fn() -> Result<W, NetlinkError>,
        R: FnMut(&mut W) -> Result<E, NetlinkError>,
    {
        let mut failures = 0_u32;
        loop {
            let read = watch.as_mut().map(|watch| {
                wait(watch);
                (self.read)(watch)
            });
            match read {
                Some(Ok(events)) => {
                    failures = 0;
                    deliver(Heard::Events(events))?;
                    continue;
                }
                Some(Err(error)) => deliver(Heard::Failed { error, failures })?,
                None => {}
            }
            failures = failures.saturating_add(1);
            #[expect(clippy::disallowed_methods, reason = "a socket that fails shows no state to wait for")]
            std::thread::sleep(REOPEN_DELAY);
            watch = match (self.open)() {
                Ok(watch) => Some(watch),
                Err(error) => {
                    deliver(Heard::Failed { error, failures })?;
                    None
                }
            };
            deliver(Heard::Gap)?;
        }
    }
}

/// Waits until there is something to read. If waiting fails, reading does too.
fn wait(watch: &impl AsFd) {
    while let Err(rustix::io::Errno::INTR) = poll(&mut [PollFd::new(watch, PollFlags::IN)], None) {}
}
