//! Sockets that outlive this process: the next one takes them over, so that no client is refused while it starts.
//!
//! Rules lead to the ports of these sockets, so the next process writes none. Connections that are open stay with the process that
//! accepted them, which ends when they do.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferrule_kernel::handover::{
    NamedSockets, Offer, Successor, from_systemd, remove_from_systemd, store_in_systemd, take,
};
use ferrule_kernel::threads;
use ferrule_model::IpFamily;
use ferrule_relay::Relay;
use sha2::{Digest as _, Sha256};

use super::wanted::{Claim, PortalId};
use crate::rule_events::unwatched;
use crate::{BackendError, Note, RuleEventSink, Severity};

/// The abstract socket over which they are passed, one for each network namespace.
const NAME: &str = "ferrule/userspace";
/// How often the name is asked for while the process before still has it.
const OFFER_INTERVAL: Duration = Duration::from_secs(1);

/// What is passed on. Shared by clones.
#[derive(Clone, Debug, Default)]
pub(super) struct Handover(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Taken over and not in use yet. Nothing before the first sync.
    taken: Option<NamedSockets>,
    /// What runs now.
    open: NamedSockets,
}

impl Handover {
    /// A socket of the process before, if it had one of this name. The first call asks that process, which then ends.
    pub(super) fn adopt(&self, name: &str) -> Option<OwnedFd> {
        self.state().taken.get_or_insert_with(take_all).remove(name)
    }

    /// Closes what is left of a family: nothing needs it.
    pub(super) fn close_rest(&self, family: IpFamily) {
        if let Some(taken) = &mut self.state().taken {
            taken.retain(|name, _| !name.starts_with(prefix(family)));
        }
    }

    /// Makes these the sockets of a family that are passed on.
    pub(super) fn publish(&self, family: IpFamily, sockets: BTreeMap<String, OwnedFd>) {
        let mut state = self.state();
        let is_gone = |name: &String| name.starts_with(prefix(family)) && !sockets.contains_key(name);
        let gone: Vec<String> = state.open.keys().filter(|name| is_gone(name)).cloned().collect();
        for name in gone {
            state.open.remove(&name);
            // Without systemd nothing happens, and what it keeps too long does no harm.
            let _ = remove_from_systemd(&name);
        }
        for (name, socket) in sockets {
            if !state.open.contains_key(&name) {
                let _ = store_in_systemd(&name, socket.as_fd());
                state.open.insert(name, socket);
            }
        }
    }

    /// Waits for the next process, until this one ends.
    pub(super) fn offer(&self, relay: Arc<Relay>, sink: Arc<dyn RuleEventSink>) -> Result<(), BackendError> {
        let handover = self.clone();
        let work = move || {
            while let Some(successor) = next_process() {
                if successor.send(&handover.state().open).is_ok() {
                    // Who is in their queues now is accepted there.
                    relay.drain(Duration::ZERO);
                    let message =
                        "Another process took over the sockets, ending when open connections have ended";
                    sink.note(Note::new(Severity::Info, message));
                    ferrule_kernel::handover::end_this_process();
                    return;
                }
            }
        };
        threads::spawn("handover", work).map(drop).map_err(unwatched)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No change of it can fail half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the process before left, or has. Without it every socket is a new one.
fn take_all() -> NamedSockets {
    let mut sockets = from_systemd();
    sockets.extend(take(NAME).unwrap_or_default());
    sockets
}

/// Waits until a process asks for our sockets. Nothing if none ever can.
fn next_process() -> Option<Successor> {
    loop {
        match Offer::open(NAME) {
            Ok(offer) => return offer.wait().ok(),
            Err(error) if error.kind() == ErrorKind::AddrInUse => std::thread::sleep(OFFER_INTERVAL),
            Err(_) => return None,
        }
    }
}

/// The name of a socket of a Service port. Names of Services are longer than systemd allows, so it is a digest.
pub(super) fn portal_name(family: IpFamily, portal: &PortalId) -> String {
    digest(family, &format!("portal {portal:?}"))
}

/// The name of a claimed port.
pub(super) fn claim_name(family: IpFamily, claim: &Claim) -> String {
    digest(family, &format!("claim {claim:?}"))
}

fn digest(family: IpFamily, text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{}{hex}", prefix(family))
}

fn prefix(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "v4-",
        IpFamily::V6 => "v6-",
    }
}
