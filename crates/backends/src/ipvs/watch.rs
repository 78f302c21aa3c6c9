//! Watches the interface of ipvs mode: another program that removes it, or an address of it, cuts Services off.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferrule_kernel::interfaces::{InterfaceEvents, InterfaceWatch};
use ferrule_kernel::netlink::{Heard, Listener};
use ferrule_kernel::threads;
use ferrule_model::{IpFamily, with_causes};

use super::kernel::INTERFACE;
use crate::rule_events::{pass_on, unwatched};
use crate::{BackendError, Drift, Note, RuleEvent, RuleEventSink, Severity};

/// The addresses that one family has on the interface, as far as we know. Shared by clones.
#[derive(Clone, Debug, Default)]
pub(super) struct BoundAddresses(Arc<Mutex<BTreeSet<IpAddr>>>);

impl BoundAddresses {
    pub(super) fn set(&self, addresses: &BTreeSet<IpAddr>) {
        self.locked().clone_from(addresses);
    }

    pub(super) fn insert(&self, address: IpAddr) {
        self.locked().insert(address);
    }

    pub(super) fn remove(&self, address: IpAddr) {
        self.locked().remove(&address);
    }

    fn contains(&self, address: IpAddr) -> bool {
        self.locked().contains(&address)
    }

    fn is_empty(&self) -> bool {
        self.locked().is_empty()
    }

    fn locked(&self) -> MutexGuard<'_, BTreeSet<IpAddr>> {
        // No change of it can fail half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One family's addresses.
pub(super) struct WatchedAddresses {
    pub family: IpFamily,
    pub bound: BoundAddresses,
}

/// Watches until the loop ends.
pub(super) fn watch_interface(
    families: Vec<WatchedAddresses>,
    sink: Arc<dyn RuleEventSink>,
) -> Result<(), BackendError> {
    let open = || InterfaceWatch::open(INTERFACE);
    let watch = open().map_err(|error| BackendError::new("watching kube-ipvs0").caused_by(error))?;
    let work = move || {
        // Something may have happened since the first sync.
        let _ = pass_on(everything(&families), &*sink);
        let _ = Listener { open, read: InterfaceWatch::receive }.run(Some(watch), |heard| {
            let events = match heard {
                Heard::Events(events) => drifts(&families, &events),
                Heard::Gap => everything(&families),
                Heard::Failed { error, failures } => {
                    let severity = if failures == 0 { Severity::Error } else { Severity::Verbose };
                    let note = Note::new(severity, "Watching kube-ipvs0 failed, subscribing again");
                    sink.note(note.with_detail(with_causes(&error)));
                    Vec::new()
                }
            };
            pass_on(events, &*sink)
        });
    };
    threads::spawn("interface-watch", work).map(drop).map_err(unwatched)
}

fn everything(families: &[WatchedAddresses]) -> Vec<RuleEvent> {
    families.iter().map(|watched| RuleEvent::Verify(Some(watched.family))).collect()
}

fn drifts(families: &[WatchedAddresses], events: &InterfaceEvents) -> Vec<RuleEvent> {
    if events.lost {
        return everything(families);
    }
    families.iter().filter_map(|watched| drift(watched, events)).collect()
}

/// What of this was not our own doing.
fn drift(watched: &WatchedAddresses, events: &InterfaceEvents) -> Option<RuleEvent> {
    let family = watched.family;
    let of_family = |ip: &&IpAddr| IpFamily::of(**ip) == family;
    let is_back = |ip: &IpAddr| events.added.contains(ip);
    let mut lost = events.removed.iter().filter(of_family).filter(|ip| watched.bound.contains(**ip));
    let removed = lost.clone().find(|ip| !is_back(ip));
    // Gone and back, by ourselves perhaps.
    let is_doubtful = lost.any(is_back);
    let added = events.added.iter().filter(of_family).find(|ip| !watched.bound.contains(**ip));
    let what = match (removed, added) {
        // There was nothing to lose, but the interface is another one now.
        _ if events.link_gone && watched.bound.is_empty() => return Some(RuleEvent::Verify(Some(family))),
        _ if events.link_gone => format!("interface {INTERFACE} removed"),
        (Some(address), _) => format!("address {address} of {INTERFACE} removed"),
        (None, Some(address)) => format!("address {address} of {INTERFACE} added"),
        (None, None) if is_doubtful => return Some(RuleEvent::Verify(Some(family))),
        (None, None) => return None,
    };
    Some(RuleEvent::Drift(Drift { family, what, by: None }))
}
