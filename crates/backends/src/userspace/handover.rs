//! Sockets that outlive this process: the next one takes them over, so that no client is refused while it starts.
//!
//! Rules lead to the ports of these sockets, so the next process writes none. Connections that are open stay with the process that
//! accepted them. It stays, without serving anyone else, until it is asked to end: one that ended by itself would be started again by
//! its supervisor, and take the sockets back. If the next process ends first, in whatever way, this one serves again.
//!
//! A sync and a hand-over exclude each other ([`Turn`]): what a process writes after it gave its sockets away would undo the rules of
//! the next one.
//!
//! What systemd kept is closed, here and there, when no Service needs it: also at a start in another mode ([`discard_stored`]).

use std::io::ErrorKind;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferrule_kernel::handover::{
    NamedSockets, Offer, StandBy, Taken, from_systemd, meeting_point, remove_from_systemd, store_in_systemd,
    take_or_offer,
};
use ferrule_kernel::threads;
use ferrule_model::IpFamily;
use ferrule_relay::Relay;

use super::socket_names::prefix;
use crate::rule_events::unwatched;
use crate::{BackendError, Note, RuleEvent, RuleEventSink, Severity};

/// Where processes meet to pass them on. In a pod it is the host's only if it is mounted.
const DIRECTORY: &str = "/run/ferrule";
const NAME: &str = "userspace";
/// How often the place is asked for while the process before still has it.
const OFFER_INTERVAL: Duration = Duration::from_millis(100);

/// What is passed on, and to whom. Shared by clones.
#[derive(Clone, Debug)]
pub(super) struct Handover {
    /// Where processes meet.
    directory: PathBuf,
    state: Arc<Mutex<State>>,
}

impl Default for Handover {
    fn default() -> Self {
        Self::at(DIRECTORY)
    }
}

#[derive(Debug, Default)]
struct State {
    /// Taken over and not in use yet. Nothing before the first sync.
    taken: Option<NamedSockets>,
    /// What runs now.
    open: NamedSockets,
    /// Whether another process serves in this one's place.
    is_given: bool,
    /// How often that ended.
    returns: u64,
    /// Whether systemd did not answer: it is not asked again.
    is_without_systemd: bool,
    notes: Vec<Note>,
    /// Where the next process waits already, before its turn.
    offer: Option<Offer>,
    /// Where this process waits for the next one.
    offered_at: Option<PathBuf>,
}

/// Keeps other processes from taking over for as long as it lives.
pub(super) struct Turn<'a>(MutexGuard<'a, State>);

impl Handover {
    /// One that meets other processes in this directory.
    pub(super) fn at(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), state: Arc::default() }
    }

    /// Waits while a hand-over is under way, and takes what the process before left, or has, if that was not done yet. That process
    /// then serves nothing any more.
    pub(super) fn turn(&self) -> Turn<'_> {
        let mut state = self.state();
        if state.taken.is_none() {
            let mut sockets = from_systemd();
            match self.meeting_point().and_then(|path| take_or_offer(&path)) {
                Ok(Taken { sockets: taken, offer }) => {
                    sockets.extend(taken);
                    state.offered_at = offer.as_ref().map(|offer| offer.path().into());
                    state.offer = offer;
                }
                Err(error) => {
                    let message = "Sockets of a process before cannot be taken over, opening others";
                    state.notes.push(Note::new(Severity::Verbose, message).with_detail(error.to_string()));
                }
            }
            state.taken = Some(sockets);
        }
        Turn(state)
    }

    /// Whether another process serves in this one's place.
    pub(super) fn is_given(&self) -> bool {
        self.state().is_given
    }

    /// This process ends: no other finds it any more.
    pub(super) fn end(&self) {
        let mut state = self.state();
        if let Some(path) = state.offered_at.take().filter(|_| !state.is_given) {
            // What is left is in no one's way.
            let _ = std::fs::remove_file(path);
        }
    }

    /// Closes what is left: nothing needs it.
    pub(super) fn close_all_rest(&self) {
        self.state().close_taken(|_| true);
    }

    /// Waits for the next process, until this one ends; and for the end of that one, whenever it took over.
    pub(super) fn offer(&self, relay: Arc<Relay>, sink: Arc<dyn RuleEventSink>) -> Result<(), BackendError> {
        let handover = self.clone();
        let work = move || {
            let mut offer = handover.state().offer.take().or_else(|| handover.place());
            while let Some(mut now) = offer.take() {
                handover.state().offered_at = Some(now.path().into());
                sink.note(Note::new(Severity::Verbose, "Another process can take over the sockets"));
                let stand_by = loop {
                    match handover.give_to_next(now) {
                        Ok(stand_by) => break stand_by,
                        Err(kept) => now = kept,
                    }
                };
                // Who is in their queues now is accepted there.
                relay.drain(Duration::ZERO);
                let message = "Another process took over the sockets; open connections go on, nothing else is served here";
                sink.note(Note::new(Severity::Info, message));
                stand_by.wait();
                handover.take_back();
                let message = "The process that took over has ended, serving again";
                sink.note(Note::new(Severity::Warning, message));
                if sink.send(RuleEvent::Verify(None)).is_err() {
                    return;
                }
                offer = stand_by.offer().ok().or_else(|| handover.place());
            }
        };
        threads::spawn("handover", work).map(drop).map_err(unwatched)
    }

    /// Waits for the next process and passes everything on; from then on it is that one's. Gives the place back if that failed.
    fn give_to_next(&self, offer: Offer) -> Result<StandBy, Offer> {
        let Ok(next) = offer.wait() else {
            // Such as no descriptors, for the moment.
            std::thread::park_timeout(OFFER_INTERVAL);
            return Err(offer);
        };
        let mut state = self.state();
        let stand_by = offer.hand_over(&next, &state.open).map_err(|(offer, _)| offer)?;
        state.is_given = true;
        Ok(stand_by)
    }

    /// The next process has gone, and no other has its place: the next sync serves.
    fn take_back(&self) {
        let mut state = self.state();
        state.is_given = false;
        state.returns += 1;
    }

    /// Waits until the process before has gone from where processes meet. Nothing if there is no such place.
    fn place(&self) -> Option<Offer> {
        loop {
            match self.meeting_point().and_then(|path| Offer::open(&path)) {
                Ok(offer) => return Some(offer),
                Err(error) if error.kind() == ErrorKind::AddrInUse => {
                    std::thread::park_timeout(OFFER_INTERVAL);
                }
                Err(_) => return None,
            }
        }
    }

    fn meeting_point(&self) -> std::io::Result<PathBuf> {
        meeting_point(&self.directory, NAME)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No change of it can fail half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn<'_> {
    /// A socket of the process before, if it had one of this name.
    pub(super) fn adopt(&mut self, name: &str) -> Option<OwnedFd> {
        self.0.taken.as_mut()?.remove(name)
    }

    /// Whether another process serves in this one's place, so that nothing here is to be served or written.
    pub(super) fn is_given(&self) -> bool {
        self.0.is_given
    }

    /// How often another process that had taken over ended.
    pub(super) fn returns(&self) -> u64 {
        self.0.returns
    }

    /// What is worth a line in the log, once.
    pub(super) fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.0.notes)
    }

    /// Closes what is left of a family: nothing needs it.
    pub(super) fn close_rest(&mut self, family: IpFamily) {
        self.0.close_taken(|name| name.starts_with(prefix(family)));
    }

    /// A socket that is about to be closed is not passed on any more.
    pub(super) fn forget(&mut self, name: &str) {
        if self.0.open.remove(name).is_some() {
            self.0.remove_from_systemd(name);
        }
    }

    /// Passes these sockets on, too. One of which there is no second descriptor for the moment is tried again with the next sync.
    pub(super) fn publish<'a>(&mut self, sockets: impl Iterator<Item = (String, BorrowedFd<'a>)>) {
        for (name, socket) in sockets {
            if self.0.open.contains_key(&name) {
                continue;
            }
            let Ok(copy) = socket.try_clone_to_owned() else { continue };
            if !self.0.is_without_systemd {
                self.0.is_without_systemd = store_in_systemd(&name, socket).is_err();
            }
            self.0.open.insert(name, copy);
        }
    }

    /// How many sockets are passed on.
    pub(super) fn published(&self) -> usize {
        self.0.open.len()
    }
}

impl State {
    fn close_taken(&mut self, is_superfluous: impl Fn(&str) -> bool) {
        let Some(taken) = &mut self.taken else { return };
        let names: Vec<String> = taken.keys().filter(|name| is_superfluous(name)).cloned().collect();
        taken.retain(|name, _| !names.contains(name));
        for name in &names {
            self.remove_from_systemd(name);
        }
    }

    fn remove_from_systemd(&mut self, name: &str) {
        // Once they are given away, systemd keeps what the other process stores.
        if !self.is_given && !self.is_without_systemd {
            self.is_without_systemd = remove_from_systemd(name).is_err();
        }
    }
}

/// Closes what systemd kept for userspace mode, here and there: at a start in another mode nothing listens any more. Returns how
/// many sockets that were.
pub(super) fn discard_stored() -> usize {
    let stored = from_systemd();
    let families = [IpFamily::V4, IpFamily::V6];
    let is_ours = |name: &&String| families.iter().any(|family| name.starts_with(prefix(*family)));
    let ours: Vec<&String> = stored.keys().filter(is_ours).collect();
    for name in &ours {
        // Without an answer it keeps them until the unit is stopped.
        let _ = remove_from_systemd(name);
    }
    ours.len()
}
