//! While the kernel refuses, changes wait; afterwards nothing of them is forgotten.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::ChildStdin;
use std::time::Duration;

use ferrule_testkit::Program;
use ferrule_testkit::netns::or_skip;

use crate::refusals::owner_instead_of_our_table;
use crate::stand::{ASKING_POD, NODE, PATIENCE, PODS, Stand, Talker, VIP, ip, service, slice, until};

const CHECKED: &str = "  externalTrafficPolicy: Local\n  healthCheckNodePort: 31001\n";

/// Makes the kernel refuse everything we write, until the owner of the table is ended.
fn refusing(stand: &Stand, program: &Program) -> (Program, ChildStdin) {
    let said = program.said();
    let owner = owner_instead_of_our_table(stand.net.node());
    assert!(program.wait_for("Sync failed", said, PATIENCE).is_some(), "{}", program.log().join("\n"));
    owner
}

fn healed(program: &Program, (owner, commands): (Program, ChildStdin)) {
    let said = program.said();
    drop(commands);
    owner.kill().expect("the owner ends");
    let line = program.wait_for("Rules written\" family=\"IPv4\"", said, Duration::from_mins(1));
    assert!(line.is_some(), "not healed:\n{}", program.log().join("\n"));
}

#[test]
fn health_checks_and_flows_of_failed_syncs_are_caught_up_with() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    stand.write("dns.yaml", &service(""));
    stand.write("dns-slice.yaml", &slice(&PODS));
    let program = stand.serve();
    let talker = Talker::new(&stand, ASKING_POD, VIP, 53);
    talker.ask_until(&PODS);
    assert!(stand.flows_to(VIP, 53) > 0);
    let owner = refusing(&stand, &program);
    stand.remove("dns.yaml");
    let other = service(CHECKED).replace("name: web", "name: checked").replace(VIP, "10.96.0.11");
    stand.write("checked.yaml", &other.replace("30080", "30081").replace("30053", "30054"));
    stand.write("checked-slice.yaml", &slice(&PODS[..1]).replace("web", "checked"));
    assert!(program.wait_for("Sync failed", program.said(), PATIENCE).is_some());
    healed(&program, owner);
    until(|| (stand.flows_to(VIP, 53) == 0).then_some(()));
    let answer = until(|| health_check(&stand));
    assert!(answer.contains("\"localEndpoints\": 1"), "{answer}");
}

fn health_check(stand: &Stand) -> Option<String> {
    page(stand, (NODE, 31001), "/")
}

/// What is answered on a port of the node, if anything is.
pub fn page(stand: &Stand, (address, port): (&str, u16), path: &str) -> Option<String> {
    let asked = stand.net.node().run(|| {
        let to = (ip(address), port).into();
        let mut stream = TcpStream::connect_timeout(&to, Duration::from_millis(100))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        std::io::Result::Ok(text)
    });
    asked.expect("the node").ok()
}

/// A look at the rules and a change of the plan may come together; the change is written all the same.
#[test]
fn a_change_that_comes_with_a_look_is_not_lost() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS[..1])));
    // A pause between syncs, so that the repair's own noise and the change meet.
    let config = stand.folder().join("config.conf");
    let text = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: nftables\n\
                clusterCIDR: 10.244.0.0/16\nnftables: {minSyncPeriod: 500ms}\n";
    std::fs::write(&config, text).expect("a configuration");
    let program = stand.start(&["--config", &config.to_string_lossy()]);
    stand.ask_until(ASKING_POD, VIP, 80, |seen| crate::stand::is_answered_by(seen, &PODS[..1]));
    for round in 0..4 {
        let said = program.said();
        stand.nft(&["flush", "map", "ip", "kube-proxy", "services"]);
        assert!(program.wait_for("repaired", said, PATIENCE).is_some());
        let now = &PODS[round % 2..=round % 2];
        stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(now)));
        stand.ask_until(ASKING_POD, VIP, 80, |seen| crate::stand::is_answered_by(seen, now));
    }
}

/// A configuration that is applied live is the one that is shown.
#[test]
fn a_changed_configuration_is_shown_by_its_page_and_its_hash() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    let config = stand.folder().join("config.conf");
    let text = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: nftables\n";
    std::fs::write(&config, text).expect("a configuration");
    let _program = stand.start(&["--config", &config.to_string_lossy()]);
    let metrics = || page(&stand, ("127.0.0.1", 10249), "/metrics").and_then(|text| hash_in(&text));
    let before = until(metrics);
    let changed = format!("{text}nftables: {{masqueradeAll: true}}\n");
    std::fs::write(&config, changed).expect("another configuration");
    until(|| metrics().filter(|hash| *hash != before));
    let shown = until(|| page(&stand, ("127.0.0.1", 10249), "/configz"));
    assert!(shown.contains("\"nftables\":{\"masqueradeBit\":14,\"masqueradeAll\":true"), "{shown}");
}

fn hash_in(metrics: &str) -> Option<String> {
    let line = metrics.lines().find_map(|line| line.strip_prefix("ferrule_config_info{hash=\""))?;
    line.split('"').next().map(str::to_owned)
}
