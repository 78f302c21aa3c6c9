//! Flows that lead nowhere any more are forgotten by the kernel, so that the client's next packet finds its way.
//!
//! Every endpoint goes on answering, wanted or not: who stays with an endpoint that has left does so by a stale flow.

use std::io::ErrorKind::{ConnectionRefused, TimedOut, WouldBlock};
use std::net::TcpStream;

use ferrule_kernel::conntrack::TCP;
use ferrule_testkit::Program;
use ferrule_testkit::netns::or_skip;
use rustix::process::{Pid, Signal, kill_process};

use crate::stand::{ASKING_POD, CLIENT, NODE, PATIENCE, PODS, Stand, Talker, VIP, ip, service, slice, until};

fn serving(endpoints: &[&str]) -> (Stand, Program) {
    let stand = Stand::new();
    stand.write("service.yaml", &service(LOAD_BALANCER));
    stand.write("slice.yaml", &slice(endpoints));
    let program = stand.serve();
    (stand, program)
}

const LOAD_BALANCER: &str = "  externalIPs: [198.51.100.20]\n";

#[test]
fn some_endpoints_to_others() {
    if !or_skip() {
        return;
    }
    let (stand, _program) = serving(&PODS[..2]);
    let talker = Talker::new(&stand, ASKING_POD, VIP, 53);
    let first = talker.ask_until(&PODS[..2]).to_string();
    assert_eq!(talker.ask().expect("an answer").to_string(), first, "a flow stays with its endpoint");
    let others: Vec<&str> = PODS.into_iter().filter(|pod| *pod != first).collect();
    stand.write("slice.yaml", &slice(&others));
    talker.ask_until(&others);
}

#[test]
fn some_endpoints_to_none() {
    if !or_skip() {
        return;
    }
    let (stand, _program) = serving(&PODS[..1]);
    let talker = Talker::new(&stand, ASKING_POD, VIP, 53);
    talker.ask_until(&PODS[..1]);
    stand.write("slice.yaml", &slice(&[]));
    talker.ask_until_error(&[ConnectionRefused]);
}

/// A client that asked before there was a Service has a flow that nobody redirects.
#[test]
fn no_endpoints_to_some() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    let _program = stand.serve();
    let talker = Talker::new(&stand, ASKING_POD, VIP, 53);
    talker.ask_until_error(&[WouldBlock, TimedOut]);
    assert!(stand.flows_to(VIP, 53) > 0, "the kernel remembers a flow that is not redirected");
    stand.write("service.yaml", &service(""));
    stand.write("slice.yaml", &slice(&PODS));
    talker.ask_until(&PODS);
}

#[test]
fn a_service_that_is_deleted() {
    if !or_skip() {
        return;
    }
    let (stand, _program) = serving(&PODS[..1]);
    let talker = Talker::new(&stand, ASKING_POD, VIP, 53);
    talker.ask_until(&PODS[..1]);
    stand.remove("service.yaml");
    talker.ask_until_error(&[WouldBlock, TimedOut]);
}

#[test]
fn endpoints_that_changed_while_the_proxy_was_away() {
    if !or_skip() {
        return;
    }
    let (stand, program) = serving(&PODS[..1]);
    let talker = Talker::new(&stand, ASKING_POD, VIP, 53);
    talker.ask_until(&PODS[..1]);
    program.kill().expect("it is killed");
    stand.write("slice.yaml", &slice(&PODS[1..2]));
    assert_eq!(talker.ask().expect("an answer").to_string(), PODS[0], "the rules stay without the proxy");
    let _program = stand.serve();
    talker.ask_until(&PODS[1..2]);
}

#[test]
fn a_node_port() {
    if !or_skip() {
        return;
    }
    let (stand, _program) = serving(&PODS[..1]);
    let talker = Talker::new(&stand, CLIENT, NODE, 30053);
    talker.ask_until(&PODS[..1]);
    stand.write("slice.yaml", &slice(&PODS[1..2]));
    talker.ask_until(&PODS[1..2]);
}

#[test]
fn the_address_of_a_load_balancer() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    let with_address = "status: {loadBalancer: {ingress: [{ip: 198.51.100.20}]}}\n";
    stand.write("service.yaml", &format!("{}{with_address}", service("")));
    stand.write("slice.yaml", &slice(&PODS[..1]));
    let _program = stand.serve();
    let talker = Talker::new(&stand, CLIENT, "198.51.100.20", 53);
    talker.ask_until(&PODS[..1]);
    stand.write("slice.yaml", &slice(&PODS[1..2]));
    talker.ask_until(&PODS[1..2]);
    stand.remove("service.yaml");
    talker.ask_until_error(&[WouldBlock, TimedOut]);
}

/// Connects while there are no rules; once the kernel remembers an attempt that nobody redirected, something else is done.
fn connects_all_the_same(stand: &Stand, meanwhile: impl FnOnce()) {
    let pod = stand.net.namespace_of(ip(ASKING_POD)).expect("the pod");
    std::thread::scope(|scope| {
        let to = (ip(VIP), 80).into();
        let connecting = scope.spawn(move || pod.run(|| TcpStream::connect_timeout(&to, PATIENCE)));
        until(|| (stand.flows_of(TCP, VIP, 80) > 0).then_some(()));
        meanwhile();
        connecting.join().expect("the client").expect("the pod").expect("the attempt comes through");
    });
}

/// Where nobody's rules need it, the kernel tracks no connections.
fn track(stand: &Stand) {
    stand.nft(&["add", "table", "ip", "tracking"]);
    stand.nft(&["add", "chain", "ip", "tracking", "new", "{ type filter hook prerouting priority 0; }"]);
    stand.nft(&["add", "rule", "ip", "tracking", "new", "ct", "state", "new", "accept"]);
}

fn signal(program: &Program, signal: Signal) {
    let id = i32::try_from(program.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(id, signal).expect("it is signalled");
}

/// Conntrack remembers what became of a first packet, and would treat all others alike.
#[test]
fn who_sent_while_rules_were_flushed_comes_through_once_they_are_back() {
    if !or_skip() {
        return;
    }
    let (stand, program) = serving(&PODS);
    track(&stand);
    signal(&program, Signal::STOP);
    stand.nft(&["delete", "table", "ip", "kube-proxy"]);
    let talker = Talker::new(&stand, ASKING_POD, VIP, 53);
    talker.ask_until_error(&[WouldBlock, TimedOut]);
    connects_all_the_same(&stand, || signal(&program, Signal::CONT));
    talker.ask_until(&PODS);
}

#[test]
fn who_connects_before_there_are_rules_comes_through_once_there_are() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    stand.write("service.yaml", &service(""));
    stand.write("slice.yaml", &slice(&PODS));
    track(&stand);
    let mut program = None;
    connects_all_the_same(&stand, || program = Some(stand.serve()));
}
