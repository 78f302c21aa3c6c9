//! How packets from other hosts and pods are led to our sockets.
//!
//! A redirected packet goes to the address of the interface it came in on, as with kube-proxy. The kernel drops it if there is none,
//! which is how some networks connect their pods; then an address of the node is named instead.

use std::sync::Arc;

use ferrule_kernel::interfaces::{LinkWatch, without_address};
use ferrule_kernel::netlink::{Heard, Listener};
use ferrule_kernel::threads;
use ferrule_model::{IpFamily, with_causes};

use crate::rule_events::{pass_on, unwatched};
use crate::{BackendError, Note, RuleEvent, RuleEventSink, Severity};

/// Where packets from other hosts and pods are led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Steering {
    /// The interface's own address (`REDIRECT`).
    Redirect,
    /// An address of the node (`DNAT`).
    ToHostAddress,
}

impl Steering {
    /// What works for every interface there is now. An address of the node always works.
    pub(super) fn needed(family: IpFamily) -> Self {
        match without_address(family == IpFamily::V6) {
            Ok(interfaces) if interfaces.is_empty() => Self::Redirect,
            Ok(_) | Err(_) => Self::ToHostAddress,
        }
    }
}

/// Has rules written again when an interface comes that needs others, until the loop ends.
pub(super) fn watch(families: Vec<IpFamily>, sink: Arc<dyn RuleEventSink>) -> Result<(), BackendError> {
    let watch =
        LinkWatch::open().map_err(|error| BackendError::new("watching interfaces").caused_by(error))?;
    let work = move || {
        let mut known: Vec<(IpFamily, Option<Steering>)> =
            families.into_iter().map(|family| (family, None)).collect();
        let _ = Listener { open: LinkWatch::open, read: LinkWatch::changed }.run(Some(watch), |heard| {
            let events = match heard {
                Heard::Events(false) => Vec::new(),
                Heard::Events(true) | Heard::Gap => changed(&mut known),
                Heard::Failed { error, failures } => {
                    let severity = if failures == 0 { Severity::Error } else { Severity::Verbose };
                    let note = Note::new(severity, "Watching interfaces failed, subscribing again");
                    sink.note(note.with_detail(with_causes(&error)));
                    Vec::new()
                }
            };
            pass_on(events, &*sink)
        });
    };
    threads::spawn("link-watch", work).map(drop).map_err(unwatched)
}

fn changed(known: &mut [(IpFamily, Option<Steering>)]) -> Vec<RuleEvent> {
    let mut events = Vec::new();
    for (family, last) in known {
        let now = Some(Steering::needed(*family));
        if std::mem::replace(last, now) != now {
            events.push(RuleEvent::Verify(Some(*family)));
        }
    }
    events
}
