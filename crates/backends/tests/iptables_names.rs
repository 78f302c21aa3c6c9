//! Unusual names that are allowed all the same: what is written for them is what iptables shows of it, so that nothing is
//! written again and again.
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

mod support;

use std::net::Ipv4Addr;
use std::sync::Arc;

use ferrule_backends::iptables::{Host, Reconciler};
use ferrule_backends::{SyncOutcome, Trigger};
use ferrule_model::{
    Change, Conditions, Endpoint, EndpointSlice, IpFamily, PerFamily, PortName, Protocol, Service,
    ServiceName, ServicePort, SliceName, SlicePort, SourceRanges, TrafficPolicy,
};
use ferrule_plan::NodePlan;
use ferrule_testkit::Draw;
use support::iptables::{Writer, saved, with_each_writer};
use support::xtables::world;

/// A namespace, a name and the name of a port.
type Names = [String; 3];

/// What texts are drawn from: what means something to iptables, to shells and to terminals, and some letters.
const CHARACTERS: &[char] = &[
    'a',
    'Z',
    '0',
    '-',
    '-',
    '_',
    '.',
    '/',
    ':',
    ' ',
    ' ',
    '"',
    '\'',
    '\\',
    '!',
    '#',
    '$',
    '`',
    '*',
    '+',
    ',',
    ';',
    '|',
    '\t',
    '\n',
    '\r',
    '\0',
    '\u{1b}',
    '\u{85}',
    '\u{202e}',
    'é',
    '€',
    '\u{10348}',
];

fn hostile() -> Vec<Names> {
    let of = |text: &str| [text, text, text].map(str::to_owned);
    let long = |length: usize| "n".repeat(length);
    let mut all: Vec<Names> = [
        "-x",
        "--",
        "-",
        "--comment",
        "--not-understood",
        "x--not-understood",
        "a --not-understood b",
        "-j",
        "-j DROP",
        "!",
        "! -s",
        "\"",
        "\\",
        "\\\"",
        "'",
        "a\"b",
        "a\\",
        "a b",
        " a",
        "a ",
        "#",
        "*nat",
        "COMMIT",
        ":X - [0:0]",
        "a\nCOMMIT\n*filter\n-A INPUT -j DROP",
        "a\r",
        "a\0b",
        "$(x)",
        "`x`",
        "%s",
        "é",
        "€€€",
    ]
    .map(of)
    .into();
    // Around where a comment is cut, with what stands behind the names and without, also in the middle of a character.
    all.extend(
        [60, 80, 84, 85, 120, 127, 128, 230, 253, 254, 255, 256, 257, 1000].map(|length| of(&long(length))),
    );
    all.extend((240..260).map(|length| [long(1), long(length), String::new()]));
    all.extend((60..70).map(|length| [long(2), "€".repeat(length + 20), "\"".repeat(length)]));
    all.push([long(63), long(63), long(63)]);
    all.push([long(253), long(253), long(253)]);
    all.push(["-".repeat(253), "-".repeat(253), "-".repeat(253)]);
    all
}

fn drawn(seed: u64) -> Vec<Names> {
    let mut draw = Draw::of(seed);
    let mut text = || (0..draw.below(40)).map(|_| *draw.one_of(CHARACTERS)).collect::<String>();
    (0..60).map(|_| [text(), text(), text()]).collect()
}

/// A plan of one Service for each, so that every kind of comment there is gets written.
fn plan(names: &[Names]) -> NodePlan {
    let mut world = world("");
    for (at, [namespace, name, port]) in names.iter().enumerate() {
        let at = u16::try_from(at).expect("some");
        let (service, port) = (ServiceName::of(namespace, &format!("{name}{at}")), PortName::new(port));
        let slice = SliceName::of("slices", &at.to_string());
        world.cluster.apply(Change::Service(service.clone(), Some(Arc::new(of_kind(at, &port)))));
        if at % 4 != 3 {
            world.cluster.apply(Change::Slice(slice, Some(endpoints(at, (service, port))), None));
        }
    }
    world.fresh_plan()
}

fn of_kind(at: u16, port: &PortName) -> Service {
    let [high, low] = at.to_be_bytes();
    let local = at % 4 == 1;
    let policy = if local { TrafficPolicy::Local } else { TrafficPolicy::Cluster };
    let port =
        ServicePort { name: port.clone(), protocol: Protocol::Tcp, number: 80, node_port: Some(20_000 + at) };
    let mut cluster_ips = PerFamily::default();
    cluster_ips.set(IpFamily::V4, Ipv4Addr::new(10, 96, high, low).into());
    Service {
        cluster_ips,
        external_ips: [Ipv4Addr::new(198, 18, high, low).into()].into(),
        load_balancer_vips: [Ipv4Addr::new(198, 19, high, low).into()].into(),
        source_ranges: SourceRanges::Only(["192.0.2.0/24".parse().expect("a block")].into()),
        external_policy: policy,
        affinity_seconds: (at % 4 == 2).then_some(60),
        health_check_port: local.then_some(30_000 + at),
        ports: [port].into(),
        ..Service::default()
    }
}

fn endpoints(at: u16, (service, name): (ServiceName, PortName)) -> EndpointSlice {
    let [high, low] = at.to_be_bytes();
    let ip = Ipv4Addr::new(10, 244, high, low).into();
    let endpoint = Endpoint { ip, conditions: Conditions::READY, is_local: at % 8 != 1, hints: None };
    let port = SlicePort { name, protocol: Protocol::Tcp, number: 8080 };
    EndpointSlice { service, family: IpFamily::V4, ports: [port].into(), endpoints: [endpoint].into() }
}

/// Writes the rules; then neither a verification nor a repair, which compares every comment, finds a difference.
fn check(names: &[Names], writer: Writer) {
    let plan = plan(names);
    let plan = plan.families.get(IpFamily::V4).expect("IPv4 is served");
    let mut reconciler = Reconciler::new(writer.tables(), Host::default());
    let report = reconciler.sync(plan, Trigger::verify()).expect("a sync");
    let rejected = reconciler.take_rejected();
    assert!(rejected.is_empty(), "{rejected:?}");
    assert_eq!(report.commits, 1);
    let chains = saved(writer.tables()).table("nat").map_or(0, |nat| nat.chains.len());
    assert!(chains > names.len(), "{chains} chains");
    for reason in [Trigger::verify(), Trigger::repair()] {
        let mut again = Reconciler::new(writer.tables(), Host::default());
        let report = again.sync(plan, reason).expect("a sync");
        assert_eq!(
            (report.outcome, report.written, report.removed),
            (SyncOutcome::UpToDate, 0, 0),
            "{reason:?}"
        );
    }
}

#[test]
fn names_that_begin_with_a_dash_and_comments_too_long_for_iptables_are_written_once() {
    with_each_writer(|writer| check(&hostile(), writer));
}

#[test]
fn any_text_in_a_name_is_written_once() {
    with_each_writer(|writer| {
        for seed in 0..4 {
            check(&drawn(seed), writer);
        }
    });
}
