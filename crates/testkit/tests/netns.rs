//! The world of namespaces itself: what packets find in it without any rules, and with a few written by hand.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ferrule_model::Protocol::{self, Sctp, Tcp, Udp};
use ferrule_plan::{Delivery, Outcome, Packet};
use ferrule_testkit::netns::{NetSpec, NetWorld, Probe, Question, Seen, UPLINK, or_skip};
use ferrule_testkit::{Story, stories_in};

const PATIENCE: Duration = Duration::from_secs(5);
const BRIEFLY: Duration = Duration::from_millis(150);

const NODE: &str = "192.0.2.10";
const NODE6: &str = "2001:db8::10";
const POD: &str = "10.244.1.5";
const OTHER_POD: &str = "10.244.1.100";
const REMOTE_POD: &str = "10.244.2.7";
const OTHER_REMOTE_POD: &str = "10.244.2.50";
const CLIENT: &str = "203.0.113.5";
const POD6: &str = "fd00:244:1::5";
const REMOTE_POD6: &str = "fd00:244:2::7";
const CLIENT6: &str = "2001:db8:ffff::5";

/// Whether `nft` can be run; a user's machine may do without, one for testing may not.
fn has_nft() -> bool {
    let found = Command::new("nft").arg("--version").output().is_ok();
    let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(found || !ci, "nft is missing");
    found
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Everybody above; all pods answer on TCP and UDP 8080, and SCTP where there is such a thing.
fn spec() -> NetSpec {
    let ports = [(Tcp, 8080), (Udp, 8080), (Sctp, 8080)];
    NetSpec::node([NODE, "192.0.2.77", NODE6, "2001:db8::77"].map(ip))
        .pod(ip(POD), &ports)
        .pod(ip(OTHER_POD), &ports)
        .pod(ip(POD6), &ports)
        .beyond(ip(REMOTE_POD), &ports)
        .beyond(ip(OTHER_REMOTE_POD), &ports)
        .beyond(ip(REMOTE_POD6), &ports)
        .beyond(ip(CLIENT), &[])
        .beyond(ip(CLIENT6), &[])
}

fn world() -> NetWorld {
    NetWorld::build(spec()).map_err(|error| error.with_sources()).expect("a world")
}

fn packet(from: &str, to: &str, port: Option<(Protocol, u16)>) -> Packet {
    Packet { from: ip(from), interface: None, to: ip(to), port }
}

fn answered(by: &str, source_seen: &str) -> Seen {
    Seen::Answered { by: by.parse().expect("an address and port"), source_seen: ip(source_seen) }
}

/// What is seen of a packet where an answer is due.
fn seen(world: &NetWorld, from: &str, to: &str, port: Option<(Protocol, u16)>) -> Seen {
    world.probe(&packet(from, to, port), PATIENCE).expect("a probe")
}

#[test]
fn everybody_reaches_everybody_with_their_own_address() {
    if !or_skip() {
        return;
    }
    let world = world();
    let v4 = [NODE, POD, OTHER_POD, REMOTE_POD, OTHER_REMOTE_POD, CLIENT];
    let v6 = [NODE6, POD6, REMOTE_POD6, CLIENT6];
    let v4_to =
        v4.iter().flat_map(|from| [POD, OTHER_POD, REMOTE_POD, OTHER_REMOTE_POD].map(|to| (*from, to)));
    let v6_to = v6.iter().flat_map(|from| [POD6, REMOTE_POD6].map(|to| (*from, to)));
    let pairs: Vec<_> = v4_to.chain(v6_to).collect();
    let mut questions = Vec::new();
    for (from, to) in pairs {
        for port in [Some((Tcp, 8080)), Some((Udp, 8080)), Some((Tcp, 81)), Some((Udp, 81)), None] {
            questions.push(Question { packet: packet(from, to, port), expected: Outcome::Untouched });
        }
    }
    let answers = world.ask(&questions).unwrap();
    assert!(answers.disagreements.is_empty(), "{}", answers.disagreements[0]);
    assert_eq!((answers.agreed, answers.unasked.len()), (questions.len(), 0));
    // The oracle's word for it is not enough: this is what is seen.
    assert_eq!(seen(&world, CLIENT, POD, Some((Tcp, 8080))), answered("10.244.1.5:8080", CLIENT));
    assert_eq!(seen(&world, POD6, REMOTE_POD6, Some((Udp, 8080))), answered("[fd00:244:2::7]:8080", POD6));
}

#[test]
fn closed_ports_refuse_and_addresses_nobody_has_are_silent() {
    if !or_skip() {
        return;
    }
    let world = world();
    for protocol in [Tcp, Udp] {
        for to in [NODE, "192.0.2.77", POD, REMOTE_POD] {
            assert_eq!(seen(&world, CLIENT, to, Some((protocol, 81))), Seen::Refused, "{to} {protocol}");
        }
        for to in [NODE6, "2001:db8::77", POD6, REMOTE_POD6] {
            assert_eq!(seen(&world, CLIENT6, to, Some((protocol, 81))), Seen::Refused, "{to} {protocol}");
        }
        assert_eq!(seen(&world, "127.0.0.1", "127.0.0.1", Some((protocol, 81))), Seen::Refused);
        assert_eq!(seen(&world, "::1", "::1", Some((protocol, 81))), Seen::Refused);
    }
    let nobody = [
        packet(CLIENT, "10.96.0.10", Some((Tcp, 80))),
        packet(POD, "10.96.0.10", Some((Udp, 80))),
        packet(NODE, "10.96.0.10", Some((Tcp, 80))),
        packet(POD6, "fd00:96::10", Some((Tcp, 80))),
        packet(CLIENT6, "fd00:96::10", Some((Udp, 80))),
        packet(POD, "10.96.0.10", None),
    ];
    let probes: Vec<_> = nobody.map(|packet| Probe { packet, timeout: BRIEFLY }).into();
    let started = Instant::now();
    assert_eq!(world.probe_all(&probes).unwrap(), vec![Seen::Silent; probes.len()]);
    assert!(started.elapsed() < 4 * BRIEFLY, "silence is waited for once, not once a packet");
}

#[test]
fn what_cannot_be_sent_is_told_apart_from_silence() {
    if !or_skip() {
        return;
    }
    let world = world();
    let unsupported = |packet: &Packet| match world.probe(packet, PATIENCE).unwrap() {
        Seen::Unsupported(why) => why,
        seen => panic!("{seen}"),
    };
    assert_eq!(unsupported(&packet(POD, REMOTE_POD6, Some((Tcp, 80)))), "its addresses are of two families");
    assert_eq!(unsupported(&packet("10.9.9.9", POD, Some((Tcp, 80)))), "no host has its source address");
    let elsewhere = Packet { interface: Some("cali77".into()), ..packet(POD, REMOTE_POD, Some((Tcp, 80))) };
    assert_eq!(unsupported(&elsewhere), "it comes in on cali1, not on cali77");
    match seen(&world, CLIENT, POD, Some((Sctp, 8080))) {
        Seen::Unsupported(why) => assert_eq!(why, "this kernel has no sctp"),
        here => assert_eq!(here, answered("10.244.1.5:8080", CLIENT)),
    }
    let unbound = packet("0.0.0.0", POD, Some((Tcp, 8080)));
    assert_eq!(world.probe(&unbound, PATIENCE).unwrap(), answered("10.244.1.5:8080", NODE));
}

/// A little of what a proxy does: translations with and without masquerading, a refusal, a drop.
const RULES: &str = "
table inet by-hand {
    chain incoming {
        type nat hook prerouting priority dstnat
        jump translate
    }
    chain own {
        type nat hook output priority -100
        jump translate
    }
    chain translate {
        ip daddr 10.96.0.10 tcp dport 80 meta mark set 1 dnat ip to numgen random mod 2 map { 0 : 10.244.1.5, 1 : 10.244.2.7 } : 8080
        ip daddr 10.96.0.11 udp dport 80 dnat ip to 10.244.2.7:8080
        ip daddr 10.96.0.12 tcp dport 80 dnat ip to jhash ip saddr mod 2 map { 0 : 10.244.1.5, 1 : 10.244.2.7 } : 8080
        ip6 daddr fd00:96::10 tcp dport 80 meta mark set 1 dnat ip6 to [fd00:244:2::7]:8080
    }
    chain leaving {
        type nat hook postrouting priority srcnat
        meta mark 1 masquerade
    }
    chain check {
        ip daddr { 10.96.0.66, 10.96.0.10 } reject
        ip6 daddr fd00:96::66 reject
        ip daddr 10.96.0.99 drop
        ip6 daddr fd00:96::99 drop
    }
    chain forward {
        type filter hook forward priority filter
        jump check
    }
    chain local-output {
        type filter hook output priority filter
        jump check
    }
}";

fn forwarded(to: &[(&str, bool)], sticky: Option<u32>) -> Outcome {
    let delivery = |(endpoint, masqueraded): &(&str, bool)| Delivery {
        endpoint: endpoint.parse().expect("an endpoint"),
        masqueraded: *masqueraded,
    };
    Outcome::Forwarded { to: to.iter().map(delivery).collect(), sticky }
}

fn rows_by_hand() -> Vec<Question> {
    let both = forwarded(&[("10.244.1.5:8080", true), ("10.244.2.7:8080", true)], None);
    let kept = forwarded(&[("10.244.2.7:8080", false)], None);
    let sticky = forwarded(&[("10.244.1.5:8080", false), ("10.244.2.7:8080", false)], Some(10800));
    let six = forwarded(&[("[fd00:244:2::7]:8080", true)], None);
    let mut rows = Vec::new();
    let mut put = |from: &str, to: &str, port, expected: &Outcome| {
        rows.push(Question { packet: packet(from, to, port), expected: expected.clone() });
    };
    for from in [POD, OTHER_POD, NODE, CLIENT, OTHER_REMOTE_POD, REMOTE_POD] {
        put(from, "10.96.0.10", Some((Tcp, 80)), &both);
        put(from, "10.96.0.66", Some((Tcp, 80)), &Outcome::Rejected);
        put(from, "10.96.0.66", Some((Udp, 80)), &Outcome::Rejected);
        put(from, "10.96.0.99", Some((Tcp, 80)), &Outcome::Dropped);
        put(from, "10.96.0.99", Some((Udp, 80)), &Outcome::Dropped);
        put(from, "10.96.0.99", None, &Outcome::Dropped);
        put(from, "10.96.0.200", Some((Tcp, 80)), &Outcome::Untouched);
        put(from, "10.96.0.66", None, &Outcome::Rejected);
    }
    // Without masquerading, a pod must come back through the node too.
    for from in [POD, NODE, CLIENT, OTHER_REMOTE_POD] {
        put(from, "10.96.0.11", Some((Udp, 80)), &kept);
    }
    for from in [OTHER_POD, CLIENT, OTHER_REMOTE_POD] {
        put(from, "10.96.0.12", Some((Tcp, 80)), &sticky);
    }
    for from in [POD6, NODE6, CLIENT6] {
        put(from, "fd00:96::10", Some((Tcp, 80)), &six);
        put(from, "fd00:96::66", Some((Tcp, 80)), &Outcome::Rejected);
        put(from, "fd00:96::66", Some((Udp, 80)), &Outcome::Rejected);
        put(from, "fd00:96::99", Some((Tcp, 80)), &Outcome::Dropped);
    }
    put(CLIENT, NODE, Some((Tcp, 30080)), &Outcome::Untouched);
    rows
}

#[test]
fn probes_see_what_rules_written_by_hand_do() {
    if !or_skip() || !has_nft() {
        return;
    }
    let world = world();
    world.node().feed("nft", &["-f", "-"], RULES).unwrap();
    let rows = rows_by_hand();
    let answers = world.ask(&rows).unwrap();
    let expected: Vec<String> = answers.disagreements.iter().map(ToString::to_string).collect();
    assert!(expected.is_empty(), "{}", expected.join("\n"));
    assert_eq!(answers.agreed, rows.len());
    let counts = world.probe_many(&packet(OTHER_POD, "10.96.0.10", Some((Tcp, 80))), 600, PATIENCE).unwrap();
    assert_eq!(counts.values().sum::<usize>(), 600);
    assert_eq!(counts.len(), 2, "{counts:?}");
}

#[test]
fn a_wrong_oracle_is_found_out() {
    if !or_skip() || !has_nft() {
        return;
    }
    let world = world();
    world.node().feed("nft", &["-f", "-"], RULES).unwrap();
    let wrong = |from, to, port, expected| {
        let answers = world.ask(&[Question { packet: packet(from, to, port), expected }]).unwrap();
        answers.disagreements.first().map(|disagreement| disagreement.found.clone())
    };
    let web = Some((Tcp, 80));
    let found = |text: &str| Some(text.to_string());
    assert_eq!(wrong(POD, "10.96.0.66", web, Outcome::Dropped), found("refused"));
    assert_eq!(wrong(POD, "10.96.0.66", web, Outcome::Untouched), found("refused"));
    let one_too_many = [("10.244.1.5:8080", true), ("10.244.2.7:8080", true), ("10.244.2.50:8080", true)];
    assert_eq!(
        wrong(POD, "10.96.0.10", web, forwarded(&one_too_many, None)),
        found("nothing ever went to 10.244.2.50:8080 masqueraded")
    );
    let one_too_few = wrong(POD, "10.96.0.10", web, forwarded(&one_too_many[..1], None));
    assert!(one_too_few.is_none_or(|found| found == "answered by 10.244.2.7:8080, which saw 192.0.2.10"));
    assert_eq!(
        wrong(CLIENT, "10.96.0.11", Some((Udp, 80)), forwarded(&[("10.244.2.7:8080", true)], None)),
        found("answered by 10.244.2.7:8080, which saw 203.0.113.5")
    );
    let moved = wrong(POD, "10.96.0.10", web, forwarded(&one_too_many[..2], Some(10800)));
    let says = "though the client should keep one";
    assert!(
        moved.as_ref().is_some_and(|found| found.starts_with("2 endpoints") && found.ends_with(says)),
        "{moved:?}"
    );
}

#[test]
fn the_packets_of_every_story_find_their_destinations_as_long_as_there_are_no_rules() {
    if !or_skip() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../stories/packets-nftables");
    for path in stories_in(&folder).unwrap() {
        let story = Story::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let scenes = story.scenes().unwrap();
        let world = NetWorld::build(NetSpec::of_scenes(&scenes)).unwrap();
        let packets = scenes.iter().flat_map(|scene| &scene.rows).flat_map(|row| &row.packets);
        let untouched = |packet: &Packet| Question { packet: packet.clone(), expected: Outcome::Untouched };
        let answers = world.ask(&packets.map(untouched).collect::<Vec<_>>()).unwrap();
        let expected: Vec<String> = answers.disagreements.iter().map(ToString::to_string).collect();
        assert!(expected.is_empty(), "{}: {}", path.display(), expected.join("\n"));
        for unasked in answers.unasked {
            println!("{}: {unasked}", path.display());
        }
    }
}

#[test]
fn a_story_tells_where_everybody_is() {
    let story = Story::parse(
        "-- cluster --\n\
         node a  addresses 192.0.2.10  alsoOn 192.0.2.77  podCIDR 10.244.1.0/24\n\
         service web  clusterIP 10.96.0.10  port http 80→8080\n\
         endpoint web 10.244.1.5  node a\n\
         endpoint web 10.244.2.7  node b\n\
         -- packets --\n\
         FROM  TO  OUTCOME\n\
         10.244.1.100, 203.0.113.5 via eth0  10.96.0.10:80  10.244.1.5:8080 | 10.244.2.7:8080  # nftables N1\n\
         192.0.2.10  192.0.2.77:30080  untouched\n",
    );
    let scenes = story.unwrap().scenes().unwrap();
    let row = &scenes[0].rows[0];
    assert_eq!((row.packets.len(), row.tags.as_deref()), (2, Some("nftables N1")));
    assert_eq!(row.expected, "10.244.1.5:8080 | 10.244.2.7:8080");
    let spec = NetSpec::of_scenes(&scenes);
    assert_eq!(spec.node, ["192.0.2.10", "192.0.2.77"].map(ip));
    let expected = NetSpec::node(spec.node.clone())
        .pod(ip("10.244.1.5"), &[(Tcp, 8080)])
        .pod(ip("10.244.1.100"), &[])
        .beyond(ip("10.244.2.7"), &[(Tcp, 8080)])
        .beyond(ip("203.0.113.5"), &[])
        .beyond(ip("10.96.0.10"), &[(Tcp, 80)]);
    assert_eq!(spec, expected);
    assert_eq!(UPLINK, "eth0");
    assert!(spec.serves(Tcp, SocketAddr::new(ip("10.244.1.5"), 8080)));
}

#[test]
fn nothing_is_left_behind() {
    if !or_skip() {
        return;
    }
    let names = || -> BTreeSet<String> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let ours = tasks.filter_map(|task| std::fs::read_link(task.ok()?.path().join("ns/net")).ok());
        ours.map(|path| path.to_string_lossy().into_owned()).collect()
    };
    let here = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
    let world = world();
    let node = world.node().run(|| std::fs::read_link("/proc/thread-self/ns/net").unwrap()).unwrap();
    assert_ne!(node, here);
    drop(world);
    assert_eq!(std::fs::read_link("/proc/thread-self/ns/net").unwrap(), here);
    assert!(!names().contains(&*node.to_string_lossy()), "a thread stayed in {}", node.display());
}
