//! Endpoint selection, row by row.
//!
//! A row is written as in the specification: this node (`n1` its name, `zA` its zone), the Service (`iL`, `eL` for a
//! policy `Local`, `np` for a node port), its endpoints with their marks, and what is selected.

use std::collections::BTreeSet;

use ferrule_model::{
    Conditions, Hints, IpFamily, NodeName, PortName, Protocol, ServicePort, TrafficPolicy, Zone,
};

use super::*;
use crate::reasons::NoReasons;

/// A row of the table. Pools are written as the letters of their endpoints, nothing for no pool.
struct Row {
    id: &'static str,
    node: &'static str,
    service: &'static str,
    endpoints: &'static str,
    cluster: &'static str,
    local: &'static str,
    /// Everything that can be reached from this node.
    all: &'static str,
    any: bool,
}

/// Columns in the order of the specification.
const fn row(id: &'static str, given: [&'static str; 3], pools: [&'static str; 3], any: bool) -> Row {
    let [node, service, endpoints] = given;
    let [cluster, local, all] = pools;
    Row { id, node, service, endpoints, cluster, local, all, any }
}

fn check(rows: &[Row]) {
    for Row { id, node, service, endpoints, cluster, local, all, any } in rows {
        let stated: Vec<Stated> = endpoints.split_whitespace().map(Stated::read).collect();
        let merged: Vec<PortEndpoint<'_>> = stated.iter().map(Stated::endpoint).collect();
        let (name, zone) = node_words(node);
        let location = NodeLocation { node: &name, zone: zone.as_ref() };
        let selection = select(&merged, needs(service), location, &mut NoReasons);
        let (in_cluster, in_local) = (letters(selection.cluster.as_ref()), letters(selection.local.as_ref()));
        let reachable: BTreeSet<&str> = in_cluster.iter().chain(&in_local).map(String::as_str).collect();
        assert_eq!(in_cluster.join(" "), *cluster, "{id}: the cluster pool");
        assert_eq!(in_local.join(" "), *local, "{id}: the local pool");
        assert_eq!(reachable, all.split_whitespace().collect(), "{id}: everything reachable from here");
        assert_eq!(selection.any, *any, "{id}: whether any endpoint is usable");
    }
}

/// `n1 zA`; a bare `z` is an empty zone label, no word with `z` no label.
fn node_words(text: &str) -> (NodeName, Option<Zone>) {
    let word = |start: char| text.split_whitespace().find(|word| word.starts_with(start));
    (NodeName::new(word('n').unwrap_or("me")), word('z').map(|zone| Zone::new(&zone[1..])))
}

fn needs(words: &str) -> Needs {
    let has = |wanted: &str| words.split_whitespace().any(|word| word == wanted);
    let policy = |local: bool| if local { TrafficPolicy::Local } else { TrafficPolicy::Cluster };
    let service = Service {
        internal_policy: policy(has("iL")),
        external_policy: policy(has("eL")),
        ..Service::default()
    };
    let port = ServicePort {
        name: PortName::new(""),
        protocol: Protocol::Tcp,
        number: 80,
        node_port: has("np").then_some(8080),
    };
    Needs::new(&service, &port, IpFamily::V4)
}

/// One endpoint, `a:L,zA,!R`.
struct Stated {
    letter: u8,
    is_local: bool,
    conditions: Conditions,
    hints: Option<Hints>,
}

impl Stated {
    fn read(word: &str) -> Self {
        let (letter, marks) = word.split_once(':').unwrap_or((word, ""));
        let marks: Vec<&str> = marks.split(',').filter(|mark| !mark.is_empty()).collect();
        let starting = |letter: char| marks.iter().filter(move |mark| mark.starts_with(letter));
        let hints = Hints {
            zones: starting('z').map(|zone| Zone::new(&zone[1..])).collect(),
            nodes: starting('n').map(|node| NodeName::new(node)).collect(),
        };
        Self {
            letter: letter.as_bytes()[0],
            is_local: marks.contains(&"L"),
            conditions: conditions(&marks),
            hints: Some(hints).filter(|hints| *hints != Hints::default()),
        }
    }

    fn endpoint(&self) -> PortEndpoint<'_> {
        PortEndpoint {
            ip: IpAddr::from([10, 0, 0, self.letter]),
            port: 80,
            conditions: self.conditions,
            is_local: self.is_local,
            hints: self.hints.as_ref(),
        }
    }
}

fn conditions(marks: &[&str]) -> Conditions {
    let of = |ready, serving, terminating| Conditions { ready, serving, terminating };
    match marks.iter().find(|mark| matches!(**mark, "!R" | "ST" | "RT" | "S")) {
        Some(&"!R") => of(false, false, false),
        Some(&"ST") => of(false, true, true),
        Some(&"RT") => of(true, true, true),
        Some(&"S") => of(false, true, false),
        _ => Conditions::READY,
    }
}

/// The letters of a pool's endpoints in its order; none if there is no pool.
fn letters(pool: Option<&Arc<Pool>>) -> Vec<String> {
    let letter = |endpoint: &PoolEndpoint| match endpoint.ip {
        IpAddr::V4(ip) => char::from(ip.octets()[3]).to_string(),
        IpAddr::V6(ip) => ip.to_string(),
    };
    pool.map_or_else(Vec::new, |pool| pool.endpoints.iter().map(letter).collect())
}

/// Row: model T1-T3, T10, T15
#[test]
fn zone_hints_restrict_the_cluster_pool_and_never_the_local_one() {
    const ALL_HINTED: &str = "a:L,zA b:L,zB c:zC d:zA";
    check(&[
        row("T1", ["zA", "plain", "a:zA b:zB c:zC d:zA"], ["a d", "", "a d"], true),
        row("T2", ["zA", "eL np", ALL_HINTED], ["a d", "a b", "a b d"], true),
        row("T3", ["zA", "iL np", ALL_HINTED], ["a d", "a b", "a b d"], true),
        row("T10", ["zC", "plain", "a:zA,zB,zC b:zB,zC c:zB,zD d:zC"], ["a b d", "", "a b d"], true),
        row("T15", ["zA", "eL np", "a:L,zA b:L,zB c:zA d:zB"], ["a c", "a b", "a b c"], true),
    ]);
}

/// Row: model T4-T6, T9
#[test]
fn zone_hints_that_cannot_be_followed_count_for_nothing() {
    check(&[
        row("T4", ["", "plain", "a:zA"], ["a", "", "a"], true),
        row("T5", ["z", "plain", "a:zA"], ["a", "", "a"], true),
        row("T6", ["zB", "plain", "a:zA"], ["a", "", "a"], true),
        row("T9", ["zA", "plain", "a:zA b:zB c d:zA"], ["a b c d", "", "a b c d"], true),
    ]);
}

/// Row: model T7, T8, T32, T33
#[test]
fn hints_of_endpoints_that_are_not_ready_are_not_looked_at() {
    check(&[
        row("T7", ["zA", "plain", "a:zA b:zB c:zC d:zA,!R"], ["a", "", "a"], true),
        row("T8", ["zA", "plain", "a:zA,!R b:zB c:zC d:zA,!R"], ["b c", "", "b c"], true),
        row("T32", ["zA", "plain", "a:!R"], ["", "", ""], false),
        row("T33", ["n1 zA", "plain", "a:n1,zA,!R b:n2,zB"], ["b", "", "b"], true),
    ]);
}

/// Row: model T11-T13
#[test]
fn node_hints_come_before_zone_hints_and_fall_back_to_them() {
    const ALL_HINTED: &str = "a:zA,n1 b:zB,n2 c:zC,n3 d:zA,n4";
    const ONE_NOT_HINTED: &str = "a:zA,n1 b c:zC,n3 d:zA,n4";
    check(&[
        row("T11", ["n1 zA", "plain", ALL_HINTED], ["a", "", "a"], true),
        row("T12", ["n1 zA", "plain", ONE_NOT_HINTED], ["a b c d", "", "a b c d"], true),
        row("T13", ["n0 zA", "plain", ALL_HINTED], ["a d", "", "a d"], true),
    ]);
}

/// Row: model T16-T19, T30
#[test]
fn an_internal_policy_local_uses_endpoints_of_this_node_alone() {
    check(&[
        row("T16", ["", "iL", ""], ["", "", ""], false),
        row("T17", ["", "iL", "a b"], ["", "", ""], true),
        row("T18", ["", "iL", "a:L b:L"], ["", "a b", "a b"], true),
        row("T19", ["", "iL", "a:L b"], ["", "a", "a"], true),
        row("T30", ["", "iL", "a b:L"], ["", "b", "b"], true),
    ]);
}

/// Row: model T20-T22, T31, T34, T35, T39
#[test]
fn terminating_endpoints_serve_when_nothing_is_ready() {
    check(&[
        row("T20", ["", "plain", "a:!R b:!R"], ["", "", ""], false),
        row("T21", ["", "plain", "a:!R b"], ["b", "", "b"], true),
        row("T22", ["", "plain", "a:L,ST b:ST"], ["a b", "", "a b"], true),
        row("T31", ["", "plain", ""], ["", "", ""], false),
        row("T34", ["", "plain", "a:RT b:!R"], ["a", "", "a"], true),
        row("T35", ["", "plain", "a:S"], ["", "", ""], false),
        row("T39", ["zA", "plain", "a:ST,zB b:ST,zA"], ["a b", "", "a b"], true),
    ]);
}

/// Row: model T23-T27, T29
#[test]
fn a_port_reachable_from_outside_has_both_pools() {
    check(&[
        row("T23", ["", "iL np", "a:L b"], ["a b", "a", "a b"], true),
        row("T24", ["", "eL np", "a:L b"], ["a b", "a", "a b"], true),
        row("T25", ["", "iL eL np", "a:L b"], ["a b", "a", "a b"], true),
        row("T26", ["", "iL eL np", "a b"], ["a b", "", "a b"], true),
        row("T27", ["", "iL eL np", "a:ST b:ST"], ["a b", "", "a b"], true),
        row("T29", ["", "eL", "a b:L"], ["a b", "", "a b"], true),
    ]);
}

/// Row: model T28, T36-T38
#[test]
fn cluster_and_local_pool_fall_back_independently() {
    check(&[
        row("T28", ["", "eL np", "a b:L,!R c:L,ST d:ST"], ["a", "c", "a c"], true),
        row("T36", ["zA", "eL np", "a:L,ST,zB b:zA"], ["b", "a", "a b"], true),
        row("T37", ["zA", "eL np", "a:zA b:zB"], ["a", "", "a"], true),
        row("T38", ["", "iL eL np", "a:L,ST b:ST"], ["a b", "a", "a b"], true),
    ]);
}
