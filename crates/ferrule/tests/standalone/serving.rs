//! Objects become packets that arrive; edits are picked up; broken files cost nothing.

use ferrule_testkit::netns::{Seen, or_skip};

use crate::stand::{ASKING_POD, CLIENT, NODE, PATIENCE, PODS, Stand, VIP, is_answered_by, service, slice};

#[test]
fn services_are_served_and_edits_picked_up() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS[..1])));
    let program = stand.serve();
    assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS[..1]));
    assert!(is_answered_by(&stand.ask(CLIENT, NODE, 30080), &PODS[..1]));

    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS[1..2])));
    stand.ask_until(ASKING_POD, VIP, 80, |seen| is_answered_by(seen, &PODS[1..2]));

    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&[])));
    stand.ask_until(ASKING_POD, VIP, 80, |seen| *seen == Seen::Refused);

    stand.remove("web.yaml");
    stand.ask_until(ASKING_POD, VIP, 80, |seen| *seen == Seen::Silent);
    assert!(program.terminate().expect("it ends").success());
}

#[test]
fn a_broken_file_keeps_what_it_said_and_names_the_line() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS)));
    let program = stand.serve();
    let said = program.said();
    stand.write("web.yaml", &format!("{}---\n{}  oops: [", service(""), slice(&PODS)));
    let told = program.wait_for("web.yaml", said, PATIENCE).expect("it complains about the file");
    assert!(told.contains("web.yaml:"), "no line in: {told}");
    assert!(told.contains("stay as they were"), "{told}");
    assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS));
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS[2..])));
    stand.ask_until(ASKING_POD, VIP, 80, |seen| is_answered_by(seen, &PODS[2..]));
}

/// A folder that says nothing of the node is not waited for, as an API server would be.
#[test]
fn a_folder_without_a_node_is_served_at_once() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    stand.remove("node.yaml");
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS)));
    let program = stand.serve();
    assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS));
    let log = program.log().join("\n");
    assert!(
        log.contains("There is no such Node") && log.contains("NodePorts are served on every address"),
        "{log}"
    );
}

#[test]
fn a_node_port_is_served_on_an_address_that_comes_later() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS)));
    let _program = stand.start(&["--nodeport-addresses", "192.0.2.0/24"]);
    stand.ask_until(CLIENT, NODE, 30080, |seen| is_answered_by(seen, &PODS));
    let on_node = |arguments: &[&str]| {
        stand
            .net
            .node()
            .feed("ip", arguments, "")
            .map_err(|error| error.with_sources())
            .expect("ip succeeds");
    };
    assert_ne!(
        stand.ask_briefly(ASKING_POD, ("192.0.2.11", ferrule_model::Protocol::Tcp, 30080)),
        Seen::Refused
    );
    on_node(&["address", "add", "192.0.2.11/32", "dev", "lo"]);
    stand.ask_until(ASKING_POD, "192.0.2.11", 30080, |seen| is_answered_by(seen, &PODS));
    on_node(&["address", "del", "192.0.2.11/32", "dev", "lo"]);
    stand.ask_until(ASKING_POD, "192.0.2.11", 30080, |seen| !matches!(seen, Seen::Answered { .. }));
}
