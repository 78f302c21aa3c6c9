//! `route_localnet`: on while NodePorts are served on 127.0.0.1, and what it was before once they are not.

use std::fs;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::Duration;

use ferrule_testkit::Program;
use ferrule_testkit::netns::Namespace;

use crate::iptables::{MODE, ready, rules, run, serve};
use crate::stand::{ASKING_POD, BINARY, CLIENT, NODE, PATIENCE, PODS, Stand, ip, is_answered_by, until};

const SETTING: &str = "net/ipv4/conf/all/route_localnet";
/// How long is waited for what is not to come.
const BRIEFLY: Duration = Duration::from_millis(300);
const NFTABLES: [&str; 1] = ["--proxy-mode=nftables"];

fn value(stand: &Stand) -> String {
    run(stand, "sysctl", &["-n", SETTING]).trim().to_owned()
}

fn until_value(stand: &Stand, wanted: &str) {
    until(|| (value(stand) == wanted).then_some(()));
}

fn has_rules(stand: &Stand) -> bool {
    rules(stand).contains("KUBE-SERVICES")
}

#[test]
fn another_mode_switches_it_off_and_so_does_a_cleanup() {
    let Some(stand) = ready() else { return };
    serve(&stand, &MODE).terminate().expect("it ends");
    assert_eq!(value(&stand), "1", "the rules stay, and what they need");
    // A restart knows that it was us.
    serve(&stand, &MODE).terminate().expect("it ends");
    let program = serve(&stand, &NFTABLES);
    until_value(&stand, "0");
    until(|| (!has_rules(&stand) && !rules(&stand).contains("FERRULE")).then_some(()));
    assert!(is_answered_by(&stand.ask(CLIENT, NODE, 30080), &PODS));
    program.terminate().expect("it ends");
    serve(&stand, &MODE).terminate().expect("it ends");
    assert_eq!(value(&stand), "1");
    run(&stand, BINARY, &["--cleanup"]);
    assert_eq!(value(&stand), "0");
}

#[test]
fn what_an_administrator_switched_on_stays_through_every_change() {
    let Some(stand) = ready() else { return };
    stand.net.node().set(SETTING, "1").expect("a setting");
    serve(&stand, &MODE).terminate().expect("it ends");
    serve(&stand, &MODE).terminate().expect("it ends");
    let program = serve(&stand, &NFTABLES);
    until(|| (!has_rules(&stand)).then_some(()));
    program.terminate().expect("it ends");
    serve(&stand, &MODE).terminate().expect("it ends");
    run(&stand, BINARY, &["--cleanup"]);
    assert_eq!(value(&stand), "1");
}

#[test]
fn a_start_that_does_not_serve_loopback_switches_off_what_an_earlier_one_needed() {
    let Some(stand) = ready() else { return };
    serve(&stand, &MODE).terminate().expect("it ends");
    let without = [&MODE[..], &["--iptables-localhost-nodeports=false"]].concat();
    serve(&stand, &without).terminate().expect("it ends");
    assert_eq!(value(&stand), "0");
    assert!(!rules(&stand).contains("FERRULE"), "{}", rules(&stand));
    stand.net.node().set(SETTING, "1").expect("a setting");
    serve(&stand, &without).terminate().expect("it ends");
    assert_eq!(value(&stand), "1", "that was somebody else");
}

#[test]
fn what_init_only_switched_on_is_known_to_be_ours() {
    let Some(stand) = ready() else { return };
    let program = stand.start(&[MODE[0], "--init-only"]);
    assert!(program.wait().expect("it ends").success());
    assert_eq!(value(&stand), "1");
    serve(&stand, &MODE).terminate().expect("it ends");
    run(&stand, BINARY, &["--cleanup"]);
    assert_eq!(value(&stand), "0");
}

#[test]
fn it_follows_the_configuration_while_it_runs() {
    let Some(stand) = ready() else { return };
    let file = stand.folder().join("configuration");
    let write = |addresses: &str| {
        let text = format!(
            "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: iptables\n\
             clusterCIDR: 10.244.0.0/16\nlogging: {{verbosity: 2}}\nnodePortAddresses: [{addresses}]\n"
        );
        fs::write(&file, text).expect("a file");
    };
    write("192.0.2.0/24");
    let _program = serve(&stand, &["--config", &file.to_string_lossy()]);
    assert_eq!(value(&stand), "0");
    write("192.0.2.0/24, 127.0.0.0/8");
    until_value(&stand, "1");
    assert!(rules(&stand).contains("-j FERRULE-LOCALNET"), "what guards it comes first");
    stand.ask_until("127.0.0.1", "127.0.0.1", 30080, |seen| is_answered_by(seen, &PODS));
    write("192.0.2.0/24");
    until_value(&stand, "0");
    until(|| (!rules(&stand).contains("FERRULE")).then_some(()));
}

#[test]
fn where_it_cannot_be_switched_off_somebody_is_told_and_what_guards_it_stays() {
    let Some(stand) = ready() else { return };
    serve(&stand, &MODE).terminate().expect("it ends");
    let script =
        "mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && exec \"$0\" \"$@\"";
    let child = stand.net.node().run(|| {
        Command::new("unshare")
            .args(["--mount", "sh", "-c", script, BINARY, "--manifests"])
            .arg(stand.folder())
            .args(["--hostname-override=node-a", "-v=2", "--cluster-cidr=10.244.0.0/16", NFTABLES[0]])
            .stderr(Stdio::piped())
            .spawn()
    });
    let program = Program::watching(child.expect("the node").expect("it starts")).expect("its log");
    let line = program.wait_for("route_localnet stays on", 0, PATIENCE);
    assert!(line.is_some(), "{}", program.log().join("\n"));
    until(|| (!has_rules(&stand)).then_some(()));
    assert!(rules(&stand).contains("-j FERRULE-LOCALNET") && value(&stand) == "1");
    program.terminate().expect("it ends");
    // Somebody who may comes later, and knows what to do.
    run(&stand, BINARY, &["--cleanup"]);
    assert_eq!(value(&stand), "0");
    assert!(!rules(&stand).contains("FERRULE"), "{}", rules(&stand));
}

/// A pod that sends to 127.0.0.1 of the node, and takes answers from there.
pub fn neighbour(stand: &Stand) -> &Namespace {
    let pod = stand.net.namespace_of(ip(ASKING_POD)).expect("the pod");
    pod.set(SETTING, "1").expect("a setting");
    pod.feed("ip", &["address", "del", "127.0.0.1/8", "dev", "lo"], "").expect("no loopback address");
    let way = pod.feed("ip", &["-4", "-o", "route", "show", "default"], "").expect("routes").stdout;
    let way = String::from_utf8_lossy(&way).trim().trim_start_matches("default").to_owned();
    pod.feed("ip", &["-batch", "-"], &format!("route add 127.0.0.1/32 {way}\n")).expect("a route");
    pod
}

/// Whether a neighbour gets an answer from a UDP port of 127.0.0.1, or at least reaches who listens there.
pub fn is_reached(pod: &Namespace, port: u16, listener: Option<&UdpSocket>) -> bool {
    let answered = pod.run(|| {
        let socket = UdpSocket::bind((ip(ASKING_POD), 0))?;
        socket.set_read_timeout(Some(BRIEFLY))?;
        socket.send_to(b"who?", ("127.0.0.1", port))?;
        socket.recv(&mut [0; 128])
    });
    answered.expect("the pod").is_ok() || listener.is_some_and(|listener| listener.recv(&mut [0; 16]).is_ok())
}

#[test]
fn a_neighbour_that_sends_to_127_0_0_1_gets_nothing_in_either_mode() {
    let Some(stand) = ready() else { return };
    // An administrator's, so that it is on in either mode.
    stand.net.node().set_all(&[(SETTING, "1"), ("net/ipv4/conf/all/rp_filter", "0")]).expect("settings");
    let pod = neighbour(&stand);
    let listener = stand.net.node().run(|| UdpSocket::bind("127.0.0.1:5353"));
    let listener = listener.expect("the node").expect("a socket");
    listener.set_read_timeout(Some(BRIEFLY)).expect("a time limit");
    assert!(is_reached(pod, 5353, Some(&listener)), "without rules it arrives");
    let program = serve(&stand, &MODE);
    assert!(!is_reached(pod, 5353, Some(&listener)) && !is_reached(pod, 30053, None), "iptables mode");
    program.terminate().expect("it ends");
    let _program = serve(&stand, &NFTABLES);
    until(|| (!has_rules(&stand)).then_some(()));
    // What is the kubelet's as well stays, and guards what listens on loopback.
    assert!(!is_reached(pod, 5353, Some(&listener)) && !is_reached(pod, 30053, None), "nftables mode");
}
