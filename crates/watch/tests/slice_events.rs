//! What one event about an EndpointSlice changes, and the trigger times such events leave behind.

mod slice_dsl;

use std::collections::BTreeMap;

use ferrule_model::{IpFamily, ServiceName, Timestamp};
use ferrule_watch::api;

use slice_dsl::{Slices, hosts, slice};

const NOBODY: &[&str] = &[];
const SVC1: &[&str] = &["ns1/svc1"];

const PORTS: &str = "port-0=80 port-1=443";

fn first() -> api::EndpointSlice {
    slice("ns1/svc1-1", PORTS, "10.0.1.1@host2 10.0.1.2@host1 10.0.1.3@host2")
}

fn second() -> api::EndpointSlice {
    slice("ns1/svc1-2", PORTS, "10.0.2.1@host2 10.0.2.2@host1")
}

/// One event on top of what was there: who is touched, and how many endpoints each port has then.
fn check(id: &str, before: &[api::EndpointSlice], event: &api::EndpointSlice, touched: &[&str]) -> Slices {
    let mut slices = Slices::with(before);
    assert_eq!(slices.put(event), touched, "{id}: touched");
    slices
}

fn endpoints(slices: &Slices) -> Vec<usize> {
    let text = slices.described("ns1/svc1");
    text.split("; ").filter(|port| !port.is_empty()).map(|port| port.split(' ').count() - 1).collect()
}

/// Row: model R1, R2
#[test]
fn a_new_slice_is_a_change_and_the_same_again_is_none() {
    let one = check("R1", &[], &first(), SVC1);
    let expected = "port-0/tcp: 10.0.1.1:80 10.0.1.2:80,L 10.0.1.3:80; \
                    port-1/tcp: 10.0.1.1:443 10.0.1.2:443,L 10.0.1.3:443";
    assert_eq!(one.described("ns1/svc1"), expected, "R1");
    let same = check("R2", &[first()], &first(), NOBODY);
    assert_eq!(same.described("ns1/svc1"), expected, "R2");
}

/// Row: model R3
#[test]
fn a_slice_of_host_names_is_no_change() {
    let mut slices = Slices::with(&[first()]);
    let before = slices.described("ns1/svc1");
    let mut names = second();
    names.address_type = "FQDN".into();
    let (touched, complaints) = slices.put_bad(&names);
    assert_eq!(touched, NOBODY, "R3");
    assert_eq!(complaints.len(), 1, "R3: {complaints:?}");
    assert_eq!(slices.described("ns1/svc1"), before, "R3");
}

/// Row: model R4, R5
#[test]
fn slices_change_apart_from_each_other() {
    let all_here = slice("ns1/svc1-1", PORTS, &hosts("10.0.1", 1..=5, "@host1"));
    let grown = check("R4", &[first(), second()], &all_here, SVC1);
    assert_eq!(endpoints(&grown), [7, 7], "R4");
    assert_eq!(
        grown.described("ns1/svc1").matches(",L").count(),
        2 * 6,
        "R4: five of the first, one of the second"
    );

    let third = slice("ns1/svc1-3", "port-0=80", &hosts("10.0.1", 1..=5, "@host2"));
    let overlapping = check("R5", &[first(), second()], &third, SVC1);
    assert_eq!(endpoints(&overlapping), [7, 5], "R5");
}

/// Row: model R6, R7
#[test]
fn a_deletion_needs_only_the_name_of_a_slice() {
    let mut slices = Slices::with(&[first(), second()]);
    let unlike_the_applied_one = slice("ns1/svc1-1", PORTS, &hosts("10.0.1", 1..=5, ""));
    assert_eq!(slices.delete(&unlike_the_applied_one), SVC1, "R6");
    let left = "port-0/tcp: 10.0.2.1:80 10.0.2.2:80,L; port-1/tcp: 10.0.2.1:443 10.0.2.2:443,L";
    assert_eq!(slices.described("ns1/svc1"), left, "R6");
    assert_eq!(slices.delete(&slice("ns1/svc1-3", PORTS, "")), NOBODY, "R7");
    assert_eq!(slices.described("ns1/svc1"), left, "R7");
}

/// Row: model R8-R11
#[test]
fn readiness_is_a_change_and_loses_no_endpoint() {
    let of = |name: &str, endpoints: &str| slice(name, "p=80", endpoints);
    let ready = of("ns1/svc1-1", &hosts("10.0.1", 1..=3, ""));
    let unready = of("ns1/svc1-1", &hosts("10.0.1", 1..=3, ",!R,!S"));
    let gone_bad = check("R8", std::slice::from_ref(&ready), &unready, SVC1);
    assert_eq!(
        gone_bad.described("ns1/svc1"),
        "p/tcp: 10.0.1.1:80,!R,!S 10.0.1.2:80,!R,!S 10.0.1.3:80,!R,!S",
        "R8"
    );

    let two = |marks: &str| of("ns1/svc1-1", &hosts("10.0.1", 1..=2, marks));
    let recovered = check("R9", &[two(",!R,!S")], &two(""), SVC1);
    assert_eq!(recovered.described("ns1/svc1"), "p/tcp: 10.0.1.1:80 10.0.1.2:80", "R9");

    let other = of("ns1/svc1-2", "10.0.2.1 10.0.2.2,!R,!S");
    let before = [of("ns1/svc1-1", "10.0.1.1,!R,!S 10.0.1.2"), other.clone()];
    let swapped = check("R10", &before, &of("ns1/svc1-1", "10.0.1.1 10.0.1.2,!R,!S"), SVC1);
    let expected = "p/tcp: 10.0.1.1:80 10.0.1.2:80,!R,!S 10.0.2.1:80 10.0.2.2:80,!R,!S";
    assert_eq!(swapped.described("ns1/svc1"), expected, "R10");

    let before = [of("ns1/svc1-1", "10.0.1.1 10.0.1.2"), of("ns1/svc1-2", "10.0.2.1 10.0.2.2,!R,!S,T")];
    let leaving = check("R11", &before, &of("ns1/svc1-1", "10.0.1.1 10.0.1.2,!R,T"), SVC1);
    let expected = "p/tcp: 10.0.1.1:80 10.0.1.2:80,!R,T 10.0.2.1:80 10.0.2.2:80,!R,!S,T";
    assert_eq!(leaving.described("ns1/svc1"), expected, "R11");
}

/// The times in the tables: the proxy started at second 10.
const T_BEFORE: &str = "2026-01-01T00:00:05Z";
const T0: &str = "2026-01-01T00:00:20Z";
const T1: &str = "2026-01-01T00:00:30.5Z";
const T2: &str = "2026-01-01T00:00:40.000001Z";
const T3: &str = "2026-01-01T01:00:50+01:00";
const STARTED: i64 = 1_767_225_610_000_000;

/// An event about the slice of a Service: put with a time (or none), or deleted.
enum Event {
    Put(&'static str, Option<&'static str>),
    Delete(&'static str),
}

use Event::{Delete, Put};

/// Runs events and says which times are gathered, in seconds and microseconds since the start of 2026.
fn check_times(id: &str, events: &[Event], expected: &[(&str, &[i64])]) {
    let mut slices = Slices::since(Timestamp::from_micros(STARTED));
    for (at, event) in events.iter().enumerate() {
        match event {
            Put(service, time) => {
                // Each event brings another endpoint: one that changes nothing has no time worth noting.
                let mut object = slice(&format!("ns1/{service}-a"), "p=80", &format!("10.0.0.{}", at + 1));
                object.metadata.annotations.last_change_trigger_time = time.map(str::to_string);
                slices.put(&object);
            }
            Delete(service) => drop(slices.delete(&slice(&format!("ns1/{service}-a"), "", ""))),
        }
    }
    let expected: BTreeMap<ServiceName, Vec<(IpFamily, Timestamp)>> = expected
        .iter()
        .map(|(service, times)| {
            let time = |micros: &i64| Timestamp::from_micros(STARTED - 10_000_000 + micros);
            let times = times.iter().map(|micros| (IpFamily::V4, time(micros)));
            (ServiceName::of("ns1", service), times.collect())
        })
        .collect();
    assert_eq!(slices.trigger_times.take(), expected, "{id}");
    assert_eq!(slices.trigger_times.take(), BTreeMap::new(), "{id}: handed over once");
}

/// Row: model G1-G5
#[test]
fn the_times_of_changes_since_the_start_are_gathered_in_order() {
    let (t0, t1, t2, t3) = (20_000_000, 30_500_000, 40_000_001, 50_000_000);
    check_times("G1", &[Put("ep1", Some(T0))], &[("ep1", &[t0])]);
    check_times("G2", &[Put("ep1", Some(T0)), Put("ep1", Some(T1))], &[("ep1", &[t0, t1])]);
    let g3 = [Put("ep1", Some(T1)), Put("ep2", Some(T2)), Put("ep1", Some(T3))];
    check_times("G3", &g3, &[("ep1", &[t1, t3]), ("ep2", &[t2])]);
    check_times("G4", &[Put("ep1", None)], &[]);
    check_times("G5", &[Put("ep1", Some(T_BEFORE))], &[]);
}

/// Row: model G6-G8
#[test]
fn a_deleted_slice_takes_the_times_of_its_service_along() {
    check_times("G6", &[Put("ep1", Some(T1)), Delete("ep1")], &[]);
    check_times(
        "G7",
        &[Put("ep1", Some(T1)), Delete("ep1"), Put("ep1", Some(T2))],
        &[("ep1", &[40_000_001])],
    );
    check_times("G8", &[Delete("ep1")], &[]);
}

/// An event that changes nothing is not programmed, so it has no latency either (Q10).
#[test]
fn an_event_that_changes_nothing_leaves_no_time() {
    let mut slices = Slices::since(Timestamp::from_micros(STARTED));
    let mut object = slice("ns1/ep1-a", "p=80", "10.0.0.1");
    slices.put(&object);
    object.metadata.annotations.last_change_trigger_time = Some(T1.into());
    slices.put(&object);
    assert_eq!(slices.trigger_times.take(), BTreeMap::new());
}

#[test]
fn a_time_that_cannot_be_read_costs_the_time_alone() {
    let mut slices = Slices::new();
    let mut object = slice("ns1/svc1-a", "p=80", "10.0.0.1");
    object.metadata.annotations.last_change_trigger_time = Some("now".into());
    let (touched, complaints) = slices.put_bad(&object);
    let complaint = "EndpointSlice ns1/svc1-a: metadata.annotations[endpoints.kubernetes.io/last-change-trigger-time]: \
                     \"now\" is not an RFC 3339 time, ignored";
    assert_eq!((touched, complaints), (vec!["ns1/svc1".to_string()], vec![complaint.to_string()]));
    assert_eq!(slices.described("ns1/svc1"), "p/tcp: 10.0.0.1:80");
    assert_eq!(slices.trigger_times.take(), BTreeMap::new());
}
