//! Watches for foreign changes of our table, through the notifications of nf_tables.
//!
//! Begins after the first sync: with a subscriber the kernel describes each change, which nearly doubles the time of a first
//! sync. What happened in between shows in the generation, so watching begins with a verification.

use std::ops::ControlFlow;
use std::sync::Arc;

use ferrule_kernel::netlink::{Heard, Listener, NetlinkError};
use ferrule_kernel::nft::{self, NftChange, NftNotification, NftNotifications, NftWatch};
use ferrule_kernel::threads;
use ferrule_model::IpFamily;

use crate::family::ip_family;
use crate::rule_events::unwatched;
use crate::{BackendError, Drift, Note, RuleEvent, RuleEventSink, Severity};
use ferrule_model::with_causes;

/// Watches until the loop ends. Commits with these portids are our own.
pub(super) fn watch(own: Vec<u32>, sink: Arc<dyn RuleEventSink>) -> Result<(), BackendError> {
    let work = move || {
        let opened = NftWatch::open();
        if let Err(error) = &opened {
            sink.note(failed(error, 0));
        }
        if sink.send(RuleEvent::Verify(None)).is_ok() {
            let mut commit = ForeignCommit::new(own);
            let read = move |watch: &mut NftWatch| watch.read().map(|received| commit.handle(received));
            let _ = Listener { open: NftWatch::open, read }.run(opened.ok(), |heard| pass_on(heard, &*sink));
        }
    };
    threads::spawn("rule-watch", work).map(drop).map_err(unwatched)
}

fn pass_on(heard: Heard<Vec<RuleEvent>>, sink: &dyn RuleEventSink) -> ControlFlow<()> {
    let events = match heard {
        Heard::Events(events) => events,
        Heard::Gap => vec![RuleEvent::Verify(None)],
        Heard::Failed { error, failures } => {
            sink.note(failed(&error, failures));
            Vec::new()
        }
    };
    if events.into_iter().all(|event| sink.send(event).is_ok()) {
        ControlFlow::Continue(())
    } else {
        ControlFlow::Break(())
    }
}

/// Only the first failure in a row is an operator's concern.
fn failed(error: &NetlinkError, failures: u32) -> Note {
    let severity = if failures == 0 { Severity::Error } else { Severity::Verbose };
    Note::new(severity, "Watching the nftables rules failed, subscribing again")
        .with_detail(with_causes(error))
}

/// The changes of one foreign commit, collected until the kernel names the program.
#[derive(Debug)]
struct ForeignCommit {
    /// Our own netlink portids.
    own: Vec<u32>,
    touched: Vec<(IpFamily, String)>,
}

impl ForeignCommit {
    fn new(own: Vec<u32>) -> Self {
        Self { own, touched: Vec::new() }
    }

    fn handle(&mut self, received: NftNotifications) -> Vec<RuleEvent> {
        let events = match received {
            NftNotifications::Received(events) => events,
            NftNotifications::Overrun => {
                self.touched.clear();
                return vec![RuleEvent::Verify(None)];
            }
        };
        let mut drifts = Vec::new();
        for event in events {
            match event.change {
                NftChange::Generation { process, process_name, .. } => {
                    drifts.extend(self.take_drifts(named(process, process_name.as_deref()).as_deref()));
                }
                _ if self.own.contains(&event.portid) => {}
                _ => self.touched.extend(described(&event)),
            }
        }
        drifts
    }

    fn take_drifts(&mut self, by: Option<&str>) -> Vec<RuleEvent> {
        let touched = std::mem::take(&mut self.touched);
        let of_family = |family| {
            let mut what: Vec<&str> =
                touched.iter().filter(|(of, _)| *of == family).map(|(_, what)| what.as_str()).collect();
            what.dedup();
            (!what.is_empty()).then(|| {
                RuleEvent::Drift(Drift { family, what: shortened(&what), by: by.map(str::to_owned) })
            })
        };
        IpFamily::BOTH.into_iter().filter_map(of_family).collect()
    }
}

fn named(process: Option<u32>, name: Option<&str>) -> Option<String> {
    match (process, name) {
        (Some(process), Some(name)) => Some(format!("{name} (process {process})")),
        (Some(process), None) => Some(format!("process {process}")),
        (None, name) => name.map(str::to_owned),
    }
}

/// The first few objects that were changed.
fn shortened(what: &[&str]) -> String {
    const MAX_SHOWN: usize = 3;
    if let Some(all) = what.iter().find(|what| what.starts_with("table")) {
        return (*all).to_owned();
    }
    let shown = what.iter().take(MAX_SHOWN).copied().collect::<Vec<_>>().join(", ");
    match what.len().saturating_sub(MAX_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn described(event: &NftNotification) -> Option<(IpFamily, String)> {
    if event.table.as_ref()?.as_str() != nft::TABLE {
        return None;
    }
    let family = ip_family(event.family?);
    let done = if event.removed { "removed" } else { "added or changed" };
    let what = match &event.change {
        NftChange::Table => format!("table {done}"),
        NftChange::Set(name) => format!("set {name} {done}"),
        NftChange::Elements(set) => format!("elements of {set} {done}"),
        NftChange::Chain(name) => format!("chain {name} {done}"),
        NftChange::Rule(chain) => format!("rule of {chain} {done}"),
        NftChange::Other | NftChange::Generation { .. } => format!("something {done}"),
    };
    Some((family, what))
}

#[cfg(test)]
mod tests {
    use ferrule_kernel::nft::{Family, Name};

    use super::*;

    fn event(portid: u32, table: &str, change: NftChange) -> NftNotification {
        NftNotification {
            family: Some(Family::Ip),
            table: Some(Name::new(table)),
            portid,
            removed: true,
            change,
        }
    }

    fn committed() -> NftNotification {
        let change = NftChange::Generation { id: 7, process: Some(42), process_name: Some("nft".to_owned()) };
        NftNotification { family: None, table: None, portid: 9, removed: false, change }
    }

    #[test]
    fn a_commit_of_another_program_is_reported_once_with_its_name() {
        let mut commit = ForeignCommit::new(vec![1]);
        let element = || event(9, nft::TABLE, NftChange::Elements(Name::new("services")));
        assert_eq!(commit.handle(NftNotifications::Received(vec![element(), element()])), []);
        let chain = event(9, nft::TABLE, NftChange::Chain(Name::new("pool-1")));
        let events = commit.handle(NftNotifications::Received(vec![chain, committed()]));
        let what = "elements of services removed, chain pool-1 removed".to_owned();
        let drift = Drift { family: IpFamily::V4, what, by: Some("nft (process 42)".to_owned()) };
        assert_eq!(events, [RuleEvent::Drift(drift)]);
    }

    #[test]
    fn our_own_commits_and_other_tables_are_nothing_to_us() {
        let mut commit = ForeignCommit::new(vec![1]);
        let ours = event(1, nft::TABLE, NftChange::Table);
        let others = event(9, "firewall", NftChange::Table);
        assert_eq!(commit.handle(NftNotifications::Received(vec![ours, others, committed()])), []);
        assert_eq!(commit.handle(NftNotifications::Overrun), [RuleEvent::Verify(None)]);
    }
}
