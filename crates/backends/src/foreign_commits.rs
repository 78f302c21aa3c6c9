//! Watches nf_tables for commits of other programs, through the kernel's notifications.
//!
//! Which of them matter is for the mode to say ([`Interpreter`]). Watching begins after the first sync: with a subscriber the kernel
//! describes each change, which nearly doubles the time of a first sync.

use std::sync::Arc;

use ferrule_kernel::netlink::{Heard, Listener, NetlinkError};
use ferrule_kernel::nft::{NftChange, NftNotification, NftNotifications, NftWatch, Subscription};
use ferrule_kernel::threads;
use ferrule_model::with_causes;

use crate::rule_events::{pass_on, unwatched};
use crate::{BackendError, Note, RuleEvent, RuleEventSink, Severity};

/// What a mode makes of commits.
pub(crate) trait Interpreter: Send + 'static {
    /// What the loop must know when watching begins: there may have been commits before.
    fn on_start(&mut self) -> Vec<RuleEvent>;

    /// Another program committed.
    fn on_commit(&mut self, commit: &ForeignCommit) -> Vec<RuleEvent>;

    /// Notifications were lost: anything may have been changed, by these programs if they are known.
    fn on_gap(&mut self, by: Option<&str>) -> Vec<RuleEvent>;
}

/// What another program changed in one commit.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ForeignCommit {
    /// In the order of the commit.
    pub changes: Vec<NftNotification>,
    /// The program, if the kernel names it.
    pub by: Option<String>,
}

/// How our own commits are known.
pub(crate) struct Own {
    /// Their netlink portids.
    pub portids: Vec<u32>,
    /// Paused during large ones.
    pub subscription: Subscription,
}

/// Watches until the loop ends.
pub(crate) fn watch(
    own: Own,
    mut interpreter: impl Interpreter,
    sink: Arc<dyn RuleEventSink>,
) -> Result<(), BackendError> {
    let Own { portids, subscription } = own;
    let open = move || NftWatch::open_pausable(&subscription);
    let work = move || {
        let opened = open();
        if let Err(error) = &opened {
            sink.note(failed(error, 0));
        }
        if pass_on(interpreter.on_start(), &*sink).is_continue() {
            let mut collector = Collector { own: portids, changes: Vec::new() };
            let read = |watch: &mut NftWatch| watch.read();
            let _ = Listener { open, read }.run(opened.ok(), |heard| {
                let events = match heard {
                    Heard::Events(NftNotifications::Received(received)) => {
                        let commits = collector.collect(received);
                        commits.iter().flat_map(|commit| interpreter.on_commit(commit)).collect()
                    }
                    Heard::Events(NftNotifications::Lost(commits)) => {
                        collector.changes.clear();
                        interpreter.on_gap(collector.foreign_programs(commits).as_deref())
                    }
                    Heard::Gap => {
                        collector.changes.clear();
                        interpreter.on_gap(None)
                    }
                    Heard::Failed { error, failures } => {
                        sink.note(failed(&error, failures));
                        Vec::new()
                    }
                };
                pass_on(events, &*sink)
            });
        }
    };
    threads::spawn("rule-watch", work).map(drop).map_err(unwatched)
}

/// Only the first failure in a row is an operator's concern.
fn failed(error: &NetlinkError, failures: u32) -> Note {
    let severity = if failures == 0 { Severity::Error } else { Severity::Verbose };
    Note::new(severity, "Watching the rules in nf_tables failed, subscribing again")
        .with_detail(with_causes(error))
}

/// Collects the changes of a commit until the kernel names the program.
#[derive(Debug)]
struct Collector {
    /// Our own netlink portids.
    own: Vec<u32>,
    changes: Vec<NftNotification>,
}

impl Collector {
    fn collect(&mut self, received: Vec<NftNotification>) -> Vec<ForeignCommit> {
        let mut commits = Vec::new();
        for event in received {
            match event.change {
                NftChange::Generation { process, process_name, .. } => {
                    let changes = std::mem::take(&mut self.changes);
                    if !changes.is_empty() {
                        commits.push(ForeignCommit { changes, by: named(process, process_name) });
                    }
                }
                _ if self.own.contains(&event.portid) => {}
                // The rules of a chain are announced one after the other.
                _ if self.changes.last() == Some(&event) => {}
                _ => self.changes.push(event),
            }
        }
        commits
    }

    /// Which other programs made these commits, the first few.
    fn foreign_programs(&self, commits: Vec<NftNotification>) -> Option<String> {
        let mut programs: Vec<String> = Vec::new();
        for commit in commits.into_iter().filter(|commit| !self.own.contains(&commit.portid)) {
            let NftChange::Generation { process, process_name, .. } = commit.change else { continue };
            programs.extend(named(process, process_name).filter(|program| !programs.contains(program)));
        }
        (!programs.is_empty()).then(|| shortened(programs))
    }
}

fn named(process: Option<u32>, name: Option<String>) -> Option<String> {
    match (process, name) {
        (Some(process), Some(name)) => Some(format!("{name} (process {process})")),
        (Some(process), None) => Some(format!("process {process}")),
        (None, name) => name,
    }
}

/// What was done to an object.
pub(crate) fn done(change: &NftNotification) -> &'static str {
    if change.removed { "removed" } else { "added or changed" }
}

/// The first few objects that were changed, each once.
pub(crate) fn shortened(mut what: Vec<String>) -> String {
    const MAX_SHOWN: usize = 3;
    if let Some(all) = what.iter().find(|what| what.starts_with("table")) {
        return all.clone();
    }
    what.dedup();
    let shown = what.iter().take(MAX_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match what.len().saturating_sub(MAX_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use ferrule_kernel::nft::{Family, Name};

    use super::*;

    fn event(portid: u32, change: NftChange) -> NftNotification {
        let table = Some(Name::new("filter"));
        NftNotification { family: Some(Family::Ip), table, portid, removed: true, change }
    }

    fn committed() -> NftNotification {
        let change = NftChange::Generation { id: 7, process: Some(42), process_name: Some("nft".to_owned()) };
        NftNotification { family: None, table: None, portid: 9, removed: false, change }
    }

    #[test]
    fn changes_are_collected_until_the_kernel_names_the_program() {
        let mut collector = Collector { own: vec![1], changes: Vec::new() };
        let chain = |portid| event(portid, NftChange::Chain(Name::new("X")));
        assert_eq!(collector.collect(vec![chain(9), chain(1)]), []);
        let commits = collector.collect(vec![chain(9), committed(), committed()]);
        let expected = ForeignCommit { changes: vec![chain(9)], by: Some("nft (process 42)".to_owned()) };
        assert_eq!(commits, [expected], "a commit of ours is none");
    }

    #[test]
    fn other_programs_are_named_once_though_notifications_were_lost() {
        let collector = |own: u32| Collector { own: vec![own], changes: Vec::new() };
        let commits = || vec![committed(), committed()];
        assert_eq!(collector(1).foreign_programs(commits()).as_deref(), Some("nft (process 42)"));
        assert_eq!(collector(9).foreign_programs(commits()), None, "these were ours");
    }

    #[test]
    fn a_few_changes_are_shown() {
        let what = |names: &[&str]| shortened(names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(what(&["a", "a", "b"]), "a, b");
        assert_eq!(what(&["a", "b", "c", "d", "e"]), "a, b, c and 2 more");
        assert_eq!(what(&["a", "table removed", "b"]), "table removed");
    }
}
