//! Watches for addresses that the host's interfaces gain or lose.

use std::io;
use std::ops::ControlFlow;
use std::sync::mpsc::SyncSender as Sender;

use ferrule_kernel::interfaces::{AddressWatch, SERVICE_INTERFACE};
use ferrule_kernel::netlink::{Heard, Listener, NetlinkError};
use ferrule_kernel::threads;
use tracing::{error, info};

use super::Event;
use ferrule_model::with_causes;

/// Why addresses cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The kernel does not let us subscribe.
    #[error("watching the addresses of this host")]
    Netlink(#[source] NetlinkError),
    /// There is no thread for it.
    #[error("starting the thread that watches addresses")]
    Thread(#[source] io::Error),
}

/// Watches from now on, until the loop ends.
pub(super) fn start(events: Sender<Event>) -> Result<(), WatchError> {
    // What is on that interface are addresses of Services, not of the node.
    let open = || AddressWatch::open_ignoring(SERVICE_INTERFACE);
    let watch = open().map_err(WatchError::Netlink)?;
    let work = move || {
        let listener = Listener { open, read: AddressWatch::changed };
        let _ = listener.run(Some(watch), |heard| pass_on(heard, &events));
    };
    threads::spawn("address-watch", work).map(drop).map_err(WatchError::Thread)
}

fn pass_on(heard: Heard<bool>, events: &Sender<Event>) -> ControlFlow<()> {
    let is_changed = match heard {
        Heard::Events(is_changed) => is_changed,
        Heard::Gap => true,
        Heard::Failed { error, failures } => {
            let err = with_causes(&error);
            if failures == 0 {
                error!(err, "Watching the addresses of this host failed, subscribing again");
            } else {
                info!(v = 2, err, failures, "Watching the addresses of this host still fails");
            }
            false
        }
    };
    if is_changed && events.send(Event::AddressesChanged).is_err() {
        return ControlFlow::Break(());
    }
    ControlFlow::Continue(())
}
