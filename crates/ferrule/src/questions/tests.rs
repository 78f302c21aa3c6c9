//! Questions that people write, and answers that agree with the oracle.

use std::path::Path;

use ferrule_model::{IpFamily, Protocol, parse_ip};
use ferrule_plan::{Explainer, Outcome, Packet, ProxyMode};
use ferrule_testkit::{Story, World, stories_in};

use super::query::{self, Parameters};
use super::{ExplainQuestion, Explanation, Origin, PacketVerdict, Target, explain};

fn explainer(world: &World) -> Explainer<'_> {
    Explainer { cluster: &world.cluster, view: &world.view, plan: &world.plan, diagnostics: &[] }
}

fn world(settings: &str, cluster: &str) -> World {
    let mut world = World::default();
    world.run_proxy(settings).expect("settings the world knows");
    world.then(cluster).expect("words the world knows");
    world
}

/// The answer to a query, as the socket has it.
fn asked(world: &World, query: &str) -> Result<Explanation, String> {
    let question = query::explain_question(&Parameters::parse(query)).map_err(|error| error.to_string())?;
    let explained = explain::answer(&explainer(world), ProxyMode::Nftables, &question);
    explained.map(|explained| explained.answer).map_err(|error| error.to_string())
}

/// A question about exactly this packet, by way of the text that commands send.
fn question_about(packet: &Packet) -> ExplainQuestion {
    let to = match (packet.to, packet.port) {
        (ip, None) => ip.to_string(),
        (ip, Some((protocol, port))) => format!("{}/{protocol}", std::net::SocketAddr::new(ip, port)),
    };
    let mut parameters = Parameters::default();
    parameters.set("from", packet.from.to_string());
    parameters.set("to", to);
    parameters.set("interface", packet.interface.clone().unwrap_or_default());
    query::explain_question(&Parameters::parse(&parameters.encoded())).expect("a question")
}

/// What an answer says, in the words of the oracle.
fn outcome(answer: &Explanation) -> String {
    match answer.verdict {
        PacketVerdict::Drop => "dropped".into(),
        PacketVerdict::Reject => "rejected".into(),
        PacketVerdict::None => "untouched".into(),
        PacketVerdict::Forward => {
            let delivered = answer.deliveries.iter().map(|delivered| {
                format!("{}{}", delivered.endpoint, if delivered.masquerade { " masqueraded" } else { "" })
            });
            let sticky = answer.affinity.map(|affinity| format!(" sticky {}s", affinity.seconds));
            delivered.collect::<Vec<_>>().join(" | ") + &sticky.unwrap_or_default()
        }
    }
}

#[test]
fn every_packet_of_every_story_is_explained_as_the_oracle_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../stories");
    let mut packets = 0;
    for path in stories_in(&folder).expect("the stories") {
        let text = std::fs::read_to_string(&path).expect("a story");
        for scene in Story::parse(&text).and_then(|story| story.scenes()).expect("a story that holds") {
            for packet in scene.rows.iter().flat_map(|row| &row.packets) {
                let question = question_about(packet);
                let explained = explain::answer(&explainer(&scene.world), ProxyMode::Nftables, &question);
                let answer = explained.expect("an answer").answer;
                let oracle: Outcome = scene.world.outcome(packet);
                let at = format!("{}: {packet:?}", path.display());
                assert_eq!(outcome(&answer), oracle.to_string(), "{at}");
                check_consistent(&answer, &at);
                packets += 1;
            }
        }
    }
    assert!(packets > 500, "only {packets} packets");
}

/// The parts of an answer agree with each other.
fn check_consistent(answer: &Explanation, at: &str) {
    assert!(!answer.rule.is_empty(), "{at}");
    assert_eq!(answer.verdict == PacketVerdict::Forward, !answer.endpoints.is_empty(), "{at}");
    if answer.verdict == PacketVerdict::Forward {
        let mut used: Vec<&str> =
            answer.pool.iter().filter(|member| member.used).map(|member| &*member.endpoint).collect();
        used.sort_unstable();
        used.dedup();
        let mut reached: Vec<&str> = answer.endpoints.iter().map(String::as_str).collect();
        reached.sort_unstable();
        assert_eq!(used, reached, "{at}: the pool and where the packet may go");
        assert!(answer.service.is_some() && answer.frontend.is_some(), "{at}");
    }
    let text = serde_json::to_string(answer).expect("JSON");
    assert_eq!(&serde_json::from_str::<Explanation>(&text).expect("the same"), answer, "{at}");
}

#[test]
fn destinations_are_read_as_people_write_them() {
    let address = |ip: &str, port| Ok(Target::Address(parse_ip(ip).expect("an address"), port));
    for (text, wanted) in [
        ("10.0.0.1:80", address("10.0.0.1", Some((Protocol::Tcp, 80)))),
        ("10.0.0.1:53/udp", address("10.0.0.1", Some((Protocol::Udp, 53)))),
        ("[fd00::1]:80/SCTP", address("fd00::1", Some((Protocol::Sctp, 80)))),
        ("fd00::1", address("fd00::1", None)),
        ("[fd00::1]", address("fd00::1", None)),
        ("10.0.0.1", address("10.0.0.1", None)),
    ] {
        assert_eq!(Target::parse(text), wanted, "{text}");
    }
    for text in ["shop/web", "shop/web:http", "shop/web:80/udp", "shop/web/udp"] {
        assert!(matches!(Target::parse(text), Ok(Target::Service(_))), "{text}");
    }
    for text in
        ["", "web", "/web", "shop/", "10.0.0.1:", "10.0.0.1:99999", "10.0.0.1/udp", "a/b/c/udp", "a/b:c:d/x"]
    {
        assert!(Target::parse(text).is_err(), "{text}: {:?}", Target::parse(text));
    }
}

#[test]
fn queries_come_back_as_they_were_written() {
    let mut parameters = Parameters::default();
    parameters.set("to", "[fd00::1]:80/udp & more=ü%");
    let again = Parameters::parse(&parameters.encoded());
    assert_eq!(again.get("to"), parameters.get("to"));
    assert!(Parameters::parse("to=%zz%4&x").get("to").is_some_and(|to| to == "%zz%4"));
}

const CLUSTER: &str = "node me addresses 192.0.2.1 podCIDR 10.244.1.0/24
    service svc NodePort clusterIP 10.96.0.1 port 80 nodePort 30080
    endpoint svc 10.244.1.5\nendpoint svc 10.244.2.6 notReady";

#[test]
fn a_service_is_a_destination_by_name() {
    let world = world("mode nftables", CLUSTER);
    for to in ["default/svc", "default/svc:80", "default/svc:80/tcp"] {
        let answer = asked(&world, &format!("from=10.244.1.9&to={to}")).expect("an answer");
        assert_eq!((answer.packet.to.as_str(), answer.packet.port), ("10.96.0.1", Some(80)), "{to}");
        assert_eq!(answer.endpoints, ["10.244.1.5:80"]);
    }
    for (to, why) in [
        ("default/none", "there is no Service default/none"),
        ("default/svc:81", "which port of Service default/svc? It has 80/tcp"),
        ("default/svc/udp", "which port of Service default/svc?"),
    ] {
        let error = asked(&world, &format!("from=10.244.1.9&to={to}")).expect_err("no answer");
        assert!(error.contains(why), "{error}");
    }
    let error = asked(&world, "from=fd00::1&to=default/svc").expect_err("another family");
    assert!(error.contains("no cluster IP of the source's family"), "{error}");
    let error = asked(&world, "from=fd00::1&to=10.96.0.1:80").expect_err("another family");
    assert!(error.contains("different IP families"), "{error}");
}

#[test]
fn every_endpoint_says_why_it_is_used_or_not() {
    let world = world("mode nftables", CLUSTER);
    let answer = asked(&world, "from=10.244.1.9&to=10.96.0.1:80").expect("an answer");
    let pool: Vec<_> = answer
        .pool
        .iter()
        .map(|member| (member.endpoint.as_str(), member.used, member.why.as_str()))
        .collect();
    assert_eq!(
        pool,
        [("10.244.1.5:80", true, "used: ready"), ("10.244.2.6:80", false, "not used: not ready")]
    );
    assert_eq!(answer.service.as_deref(), Some("default/svc"));
    assert!(answer.reasons.iter().any(|reason| reason.contains("internalTrafficPolicy is Cluster")));
}

#[test]
fn a_source_can_be_the_node_a_pod_or_outside() {
    let by_interface = world("mode nftables\ndetectLocal InterfaceNamePrefix cali", CLUSTER);
    let answer = asked(&by_interface, "origin=pod&from=10.244.1.9&to=10.96.0.1:80").expect("an answer");
    assert_eq!(answer.packet.interface.as_deref(), Some("cali0"));
    let answer = asked(&by_interface, "origin=node&to=10.96.0.1:80").expect("an answer");
    assert_eq!((answer.packet.from.as_str(), answer.packet.interface), ("192.0.2.1", None));
    let answer = asked(&by_interface, "origin=outside&to=192.0.2.1:30080").expect("an answer");
    assert_eq!(answer.packet.from, "203.0.113.1");
    for query in [
        "to=10.96.0.1:80",
        "origin=node&from=10.0.0.1&to=10.0.0.2:1",
        "origin=moon&to=10.0.0.2:1",
        "from=x&to=y",
    ] {
        assert!(asked(&by_interface, query).is_err(), "{query}");
    }
    let error = asked(&by_interface, "form=10.0.0.1&to=10.0.0.2:1").expect_err("a misspelt parameter");
    assert!(error.contains("there is no parameter \"form\""), "{error}");
}

#[test]
fn a_family_that_is_not_served_is_said_to_be() {
    let mut world = world("mode nftables", CLUSTER);
    world.plan.families.v6 = None;
    let question = ExplainQuestion {
        origin: Origin::Outside(None),
        to: Target::parse("[fd00::1]:80").expect("a destination"),
        interface: None,
    };
    let explained = explain::answer(&explainer(&world), ProxyMode::Nftables, &question).expect("an answer");
    assert_eq!(explained.family, IpFamily::V6);
    assert_eq!(explained.answer.verdict, PacketVerdict::None);
    assert_eq!(explained.answer.rule, "this node does not serve IPv6");
}
