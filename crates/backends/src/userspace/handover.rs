//! Sockets that outlive this process: the next one takes them over, so that no client is refused while it starts.
//!
//! Rules lead to the ports of these sockets, so the next process writes none. Connections that are open stay with the process that
//! accepted them. It stays, without doing anything else, until it is asked to end: one that ended by itself would be started again by
//! its supervisor, and take the sockets back.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferrule_kernel::handover::{
    NamedSockets, Offer, Successor, from_systemd, meeting_point, remove_from_systemd, store_in_systemd, take,
};
use ferrule_kernel::threads;
use ferrule_model::IpFamily;
use ferrule_relay::Relay;
use sha2::{Digest as _, Sha256};

use super::wanted::{Claim, PortalId};
use crate::rule_events::unwatched;
use crate::{BackendError, Note, RuleEventSink, Severity};

/// Where processes meet to pass them on. In a pod it is the host's only if it is mounted.
const DIRECTORY: &str = "/run/ferrule";
const NAME: &str = "userspace";
/// How often the place is asked for while the process before still has it.
const OFFER_INTERVAL: Duration = Duration::from_millis(100);

/// What is passed on. Shared by clones.
#[derive(Clone, Debug, Default)]
pub(super) struct Handover(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Taken over and not in use yet. Nothing before the first sync.
    taken: Option<NamedSockets>,
    /// What runs now.
    open: NamedSockets,
    /// Whether another process has taken over.
    is_given: bool,
    /// Whether systemd did not answer: it is not asked again.
    is_without_systemd: bool,
    notes: Vec<Note>,
    /// Where this process waits for the next one.
    offered_at: Option<PathBuf>,
}

impl Handover {
    /// Takes what the process before left, or has, if that was not done yet. That process then serves nothing any more.
    pub(super) fn begin(&self) {
        let mut state = self.state();
        if state.taken.is_none() {
            let mut sockets = from_systemd();
            match meeting_point(DIRECTORY.as_ref(), NAME).and_then(|path| take(&path)) {
                Ok(taken) => sockets.extend(taken),
                Err(error) => {
                    let message = "Sockets of a process before cannot be taken over, opening others";
                    state.notes.push(Note::new(Severity::Verbose, message).with_detail(error.to_string()));
                }
            }
            state.taken = Some(sockets);
        }
    }

    /// A socket of the process before, if it had one of this name.
    pub(super) fn adopt(&self, name: &str) -> Option<OwnedFd> {
        self.state().taken.as_mut()?.remove(name)
    }

    /// Whether another process has taken over, so that nothing here is to be served or written any more.
    pub(super) fn is_given(&self) -> bool {
        self.state().is_given
    }

    /// What is worth a line in the log, once.
    pub(super) fn take_notes(&self) -> Vec<Note> {
        std::mem::take(&mut self.state().notes)
    }

    /// This process ends: no other finds it any more.
    pub(super) fn end(&self) {
        let mut state = self.state();
        if let Some(path) = state.offered_at.take().filter(|_| !state.is_given) {
            // What is left is in no one's way.
            let _ = std::fs::remove_file(path);
        }
    }

    /// Closes what is left of a family: nothing needs it.
    pub(super) fn close_rest(&self, family: IpFamily) {
        self.close_taken(|name| name.starts_with(prefix(family)));
    }

    /// Closes what is left: nothing needs it.
    pub(super) fn close_all_rest(&self) {
        self.close_taken(|_| true);
    }

    fn close_taken(&self, is_superfluous: impl Fn(&str) -> bool) {
        let mut state = self.state();
        let Some(taken) = &mut state.taken else { return };
        let names: Vec<String> = taken.keys().filter(|name| is_superfluous(name)).cloned().collect();
        taken.retain(|name, _| !names.contains(name));
        for name in &names {
            state.remove_from_systemd(name);
        }
    }

    /// A socket that is about to be closed is not passed on any more.
    pub(super) fn forget(&self, name: &str) {
        let mut state = self.state();
        if state.open.remove(name).is_some() {
            state.remove_from_systemd(name);
        }
    }

    /// Makes these the sockets of a family that are passed on.
    pub(super) fn publish(&self, family: IpFamily, sockets: BTreeMap<String, OwnedFd>) {
        let mut state = self.state();
        let is_gone = |name: &String| name.starts_with(prefix(family)) && !sockets.contains_key(name);
        let gone: Vec<String> = state.open.keys().filter(|name| is_gone(name)).cloned().collect();
        for name in gone {
            state.open.remove(&name);
            state.remove_from_systemd(&name);
        }
        for (name, socket) in sockets {
            if !state.open.contains_key(&name) {
                if !state.is_without_systemd {
                    state.is_without_systemd = store_in_systemd(&name, socket.as_fd()).is_err();
                }
                state.open.insert(name, socket);
            }
        }
    }

    /// Waits for the next process, until this one ends.
    pub(super) fn offer(&self, relay: Arc<Relay>, sink: Arc<dyn RuleEventSink>) -> Result<(), BackendError> {
        let handover = self.clone();
        let work = move || {
            let Ok(path) = meeting_point(DIRECTORY.as_ref(), NAME) else { return };
            while let Some(offer) = place(&path) {
                handover.state().offered_at = Some(path.clone());
                sink.note(Note::new(Severity::Verbose, "Another process can take over the sockets"));
                if !offer.wait().is_ok_and(|next| handover.give(&next)) {
                    continue;
                }
                // Who is in their queues now is accepted there.
                relay.drain(Duration::ZERO);
                let message = "Another process took over the sockets; open connections go on, nothing else is served here";
                sink.note(Note::new(Severity::Info, message));
                return;
            }
        };
        threads::spawn("handover", work).map(drop).map_err(unwatched)
    }

    /// Passes everything on; from then on it is another process's.
    fn give(&self, next: &Successor) -> bool {
        let mut state = self.state();
        state.is_given = next.send(&state.open).is_ok();
        if state.is_given {
            // A supervisor may start this process again, and systemd keeps what the other one stores.
            state.open.clear();
        }
        state.is_given
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No change of it can fail half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn remove_from_systemd(&mut self, name: &str) {
        if !self.is_without_systemd {
            self.is_without_systemd = remove_from_systemd(name).is_err();
        }
    }
}

/// Waits until the process before has gone from where processes meet. Nothing if there is no such place.
fn place(path: &Path) -> Option<Offer> {
    loop {
        match Offer::open(path) {
            Ok(offer) => return Some(offer),
            Err(error) if error.kind() == ErrorKind::AddrInUse => std::thread::park_timeout(OFFER_INTERVAL),
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
    let mut name = prefix(family).to_owned();
    for byte in digest.iter().take(16) {
        // Writing to memory does not fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

fn prefix(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "v4-",
        IpFamily::V6 => "v6-",
    }
}
