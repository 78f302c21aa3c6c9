//! What others changed while nobody announced it: found by reading, and said.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use ferrule_kernel::ipset::SetChange;
use ferrule_kernel::ipvs::{IpvsChange, RealServer};
use ferrule_kernel::port::{AddressSets, FakeIpvsKernel, ServiceInterface, VirtualServers};
use ferrule_model::IpFamily;

use super::Node;
use super::node::id;
use crate::ipvs::sets::specs;
use crate::ipvs::slices::SLICE;
use crate::{BackendError, IpvsOptions, SyncOutcome, SyncReport};

const FACTS: &str = "service svc clusterIP 10.20.30.41 port p80 80
    endpoint svc 10.0.1.1 node b
    endpoint svc 10.0.1.2 node b
    service other clusterIP 10.20.30.42 port p80 80";

fn change(kernel: &FakeIpvsKernel, change: IpvsChange) {
    assert!(VirtualServers::apply(&mut kernel.clone(), &[change]).unwrap().iter().all(Result::is_ok));
}

/// What a verification says after this was done.
fn found(damage: impl FnOnce(&FakeIpvsKernel)) -> Option<String> {
    let mut node = Node::of(FACTS);
    damage(&node.kernel);
    let found = node.verify().found;
    assert_eq!(node.verify().found, None, "it is repaired");
    found
}

#[test]
fn a_verification_names_what_differed() {
    let delete = |kernel: &FakeIpvsKernel| {
        change(kernel, IpvsChange::DeleteService(id("10.20.30.41:80")));
        change(kernel, IpvsChange::DeleteService(id("10.20.30.42:80")));
    };
    assert_eq!(found(delete).unwrap(), "virtual server removed: 10.20.30.41:80/TCP and 1 more");
    let service = id("10.20.30.41:80");
    let address = "10.0.1.2:80".parse().unwrap();
    let remove =
        |kernel: &FakeIpvsKernel| change(kernel, IpvsChange::DeleteServer { service, server: address });
    assert_eq!(found(remove).unwrap(), "real server removed: 10.0.1.2:80 of 10.20.30.41:80/TCP");
    let reweigh = |kernel: &FakeIpvsKernel| {
        change(kernel, IpvsChange::SetServer { service, server: RealServer { address, weight: 7 } });
    };
    assert_eq!(found(reweigh).unwrap(), "real server changed: 10.0.1.2:80 of 10.20.30.41:80/TCP");
    let foreign = |kernel: &FakeIpvsKernel| {
        let server = RealServer { address: "10.9.9.9:80".parse().unwrap(), weight: 1 };
        change(kernel, IpvsChange::AddServer { service, server });
    };
    assert_eq!(found(foreign).unwrap(), "real server added: 10.9.9.9:80 of 10.20.30.41:80/TCP");
}

#[test]
fn a_verification_names_sets_and_addresses() {
    let flush = |kernel: &FakeIpvsKernel| {
        let spec = &specs(IpFamily::V4)[6];
        let entries = kernel.clone().entries(spec).unwrap();
        let all = entries.iter().map(|entry| SetChange { set: spec, entry: *entry, add: false });
        AddressSets::apply(&mut kernel.clone(), &all.collect::<Vec<_>>()).unwrap();
    };
    assert_eq!(found(flush).unwrap(), "entry removed: 10.20.30.41,tcp:80 of KUBE-CLUSTER-IP and 1 more");
    let unbind = |kernel: &FakeIpvsKernel| {
        let mut kernel = kernel.clone();
        let link = kernel.find("kube-ipvs0").unwrap().unwrap();
        kernel.change(&link, &[], &["10.20.30.42".parse().unwrap()]).unwrap();
    };
    assert_eq!(found(unbind).unwrap(), "address removed: 10.20.30.42 of kube-ipvs0");
    let cut = |kernel: &FakeIpvsKernel| {
        let mut kernel = kernel.clone();
        let link = kernel.find("kube-ipvs0").unwrap().unwrap();
        kernel.delete(&link).unwrap();
    };
    let text = found(cut).unwrap();
    assert!(text.starts_with("interface removed: kube-ipvs0; address removed: 10.20.30.41"), "{text}");
}

#[test]
fn a_verification_names_chains() {
    let mut node = Node::of(FACTS);
    node.tables.empty("nat", "KUBE-SERVICES");
    let text = node.verify().found.unwrap();
    assert_eq!(text, "rules changed: KUBE-SERVICES");
}

#[test]
fn a_new_period_counts_at_once() {
    let mut node = Node::of(FACTS);
    for seconds in [3600, 1] {
        let period = Duration::from_secs(seconds);
        assert_eq!(node.verify_every(period), Some(period), "without a sync in between");
    }
}

#[test]
fn a_change_of_the_plan_is_no_finding() {
    let mut node = Node::of(FACTS);
    assert_eq!(node.try_then("gone service other").unwrap().found, None);
}

#[test]
fn a_change_that_is_synced_by_a_verification_is_no_finding() {
    let mut node = Node::of(FACTS);
    let report = node.verify_after("endpoint svc 10.0.1.3 node b\ngone service other");
    assert_eq!((report.found, report.outcome), (None, SyncOutcome::Incremental));
    assert_eq!(node.servers(), ["10.20.30.41:80/TCP: 10.0.1.1:80, 10.0.1.2:80, 10.0.1.3:80"]);
    // What another program did at the same time is one, and nothing else.
    change(&node.kernel, IpvsChange::DeleteService(id("10.20.30.41:80")));
    let report = node.verify_after("endpoint svc 10.0.1.4 node b");
    let found = "virtual server removed: 10.20.30.41:80/TCP";
    assert_eq!((report.found.as_deref(), report.outcome), (Some(found), SyncOutcome::Rewritten));
    assert_eq!(node.servers(), ["10.20.30.41:80/TCP: 10.0.1.1:80, 10.0.1.2:80, 10.0.1.3:80, 10.0.1.4:80"]);
}

#[test]
fn another_scheduler_is_no_finding() {
    let mut node = Node::of(FACTS);
    node.reconfigure(IpvsOptions { scheduler: "sh".into(), ..IpvsOptions::default() });
    let report = node.verify();
    assert_eq!((report.found, report.outcome), (None, SyncOutcome::Incremental));
    assert!(report.written > 0);
}

#[test]
fn a_server_that_has_drained_by_the_time_of_a_verification_is_no_finding() {
    let mut node = Node::of(FACTS);
    node.connections("10.20.30.41:80", "10.0.1.2:80", 1, 0);
    node.then("gone endpoint svc 10.0.1.2");
    assert_eq!(node.servers()[0], "10.20.30.41:80/TCP: 10.0.1.1:80, 10.0.1.2:80 weight 0");
    node.connections("10.20.30.41:80", "10.0.1.2:80", 0, 0);
    let mut report = node.verify();
    // It is counted when its time has come.
    if node.servers()[0].contains("weight 0") {
        node.run_deferred();
        report = node.verify();
    }
    assert_eq!((report.found, report.outcome.is_repair()), (None, false));
}

/// More virtual servers than are read in one go.
fn many() -> Node {
    Node::of(&numbered(2 * SLICE + 10))
}

fn numbered(services: usize) -> String {
    let mut facts = String::new();
    for number in 0..services {
        let (block, last) = (number / 250, number % 250);
        let _ = writeln!(facts, "service s{number} clusterIP 10.96.{block}.{last} port p80 80");
        let _ = writeln!(facts, "endpoint s{number} 10.0.{block}.{last} node b");
    }
    facts
}

/// The requests for real servers since the last call.
fn server_lists(node: &Node) -> Vec<String> {
    node.kernel.take_reads().into_iter().filter(|read| read.starts_with("server list")).collect()
}

/// Does what is deferred until a slice was read.
fn next_slice(node: &mut Node) -> SyncReport {
    try_next_slice(node).expect("what was deferred")
}

fn try_next_slice(node: &mut Node) -> Result<SyncReport, BackendError> {
    node.skip_pause();
    node.try_run_deferred()
}

#[test]
fn changes_do_not_put_a_slice_off() {
    let mut node = many();
    let asked = node.verify().deferred.expect("slices are left");
    let mut after = asked.after;
    for last in 0..20 {
        let report = node.try_then(&format!("endpoint s0 10.0.9.{last} node b")).unwrap();
        let now = report.deferred.expect("slices are left").after;
        assert!(now <= after, "{now:?} > {after:?}");
        after = now;
    }
    node.skip_pause();
    let report = node.try_then("endpoint s0 10.0.9.99 node b").unwrap();
    assert_eq!(report.deferred.map(|deferred| deferred.after), Some(Duration::ZERO));
}

#[test]
fn slices_take_a_tenth_of_the_time_and_rest_after_a_repair() {
    let mut node = many();
    let service = id("10.96.2.1:80");
    change(&node.kernel, IpvsChange::DeleteServer { service, server: "10.0.2.1:80".parse().unwrap() });
    node.verify();
    let report = next_slice(&mut node);
    assert!(report.outcome.is_repair());
    let after = report.deferred.expect("one more slice").after;
    assert!(after > Duration::from_millis(400), "{after:?}");
    node.kernel.take_reads();
    assert_eq!(node.run_deferred().deferred.map(|deferred| deferred.after <= after), Some(true));
    assert_eq!(server_lists(&node), Vec::<String>::new(), "not before it is due");
}

#[test]
fn virtual_servers_that_went_between_slices_come_back() {
    let mut node = many();
    let before = node.servers();
    node.verify();
    let all: Vec<_> =
        (0..2 * SLICE + 10).map(|number| format!("10.96.{}.{}:80", number / 250, number % 250)).collect();
    for service in &all {
        change(&node.kernel, IpvsChange::DeleteService(id(service)));
    }
    node.kernel.take_reads();
    let report = next_slice(&mut node);
    assert_eq!(server_lists(&node).len(), SLICE, "no more than a slice was read");
    assert_eq!(node.servers(), before);
    assert!(report.found.is_some_and(|found| found.contains("virtual server removed")));
}

#[test]
fn a_change_costs_the_same_among_a_hundred_services_and_among_thousands() {
    let cost = |services: usize| {
        let mut node = Node::of(&numbered(services));
        let mut report = node.verify();
        while report.deferred.is_some() {
            report = next_slice(&mut node);
        }
        node.kernel.take_reads();
        let written = node.then("endpoint s7 10.0.99.1 node b");
        (written, node.kernel.take_reads())
    };
    let (written, read) = cost(100);
    assert_eq!(written, ["server add 10.96.0.7:80/TCP 10.0.99.1:80 weight 1"]);
    assert_eq!(read, Vec::<String>::new());
    assert_eq!(cost(5_000), (written, read));
}

#[test]
fn real_servers_of_many_services_are_verified_in_slices() {
    let mut node = many();
    node.kernel.take_reads();
    let mut report = node.verify();
    let mut reads = vec![server_lists(&node)];
    while report.deferred.is_some() {
        report = next_slice(&mut node);
        reads.push(server_lists(&node));
    }
    let sizes: Vec<usize> = reads.iter().map(Vec::len).collect();
    assert_eq!(sizes, [SLICE, SLICE, 10]);
    let all: BTreeSet<String> = reads.into_iter().flatten().collect();
    assert_eq!(all.len(), 2 * SLICE + 10, "each is read once");
}

#[test]
fn drift_in_a_later_slice_is_repaired_and_named() {
    let mut node = many();
    let service = id("10.96.2.1:80");
    let server = "10.0.2.1:80".parse().unwrap();
    change(&node.kernel, IpvsChange::DeleteServer { service, server });
    let first = node.verify();
    assert_eq!((first.found, first.outcome), (None, SyncOutcome::UpToDate));
    // A change that comes meanwhile does not wait, and the rest is read after it.
    assert!(node.try_then("endpoint s0 10.0.9.9 node b").unwrap().deferred.is_some());
    let later: Vec<_> = (0..2).map(|_| next_slice(&mut node)).collect();
    let found: Vec<_> = later.iter().filter_map(|report| report.found.as_deref()).collect();
    assert_eq!(found, ["real server removed: 10.0.2.1:80 of 10.96.2.1:80/TCP"]);
    assert_eq!(later.iter().map(|report| report.written).sum::<usize>(), 1);
    assert_eq!(later.iter().map(|report| report.outcome.is_repair()).collect::<Vec<_>>(), [true, false]);
    assert_eq!(later[1].deferred, None);
}

#[test]
fn verifications_that_follow_each_other_closely_come_round() {
    let mut node = many();
    let service = id("10.96.2.1:80");
    let server = "10.0.2.1:80".parse().unwrap();
    change(&node.kernel, IpvsChange::DeleteServer { service, server });
    let found: Vec<_> = (0..3).filter_map(|_| node.verify().found).collect();
    assert_eq!(found, ["real server removed: 10.0.2.1:80 of 10.96.2.1:80/TCP"]);
}

#[test]
fn a_slice_that_cannot_be_read_is_an_error_and_the_next_sync_reads_everything() {
    let mut node = many();
    node.verify();
    node.kernel.reject("server list 10.96.2.1:80/TCP", 1, 12);
    let failed: Vec<_> = (0..2).map(|_| try_next_slice(&mut node).is_err()).collect();
    assert!(failed.contains(&true), "{failed:?}");
    node.kernel.take_reads();
    assert_eq!(node.verify().deferred, None);
    assert_eq!(server_lists(&node).len(), 2 * SLICE + 10);
}
