//! Clients that must not reach what has gone: those that use a port again, UDP clients, and the host where source ranges exclude it.

use std::io::Read as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ferrule_kernel::ipvs::{Ipvs, Timeouts};
use ferrule_kernel::sysctl;

use crate::beside_others;
use crate::clients;
use crate::node::{ASKING_POD, Node, PATIENCE, PAUSE, PODS, ip};

const WAIT: Duration = Duration::from_secs(10);

/// Which endpoint answers a client that connects from this port.
fn answered_by(node: &Node, port: u16) -> Option<&'static str> {
    let (from, to) = (SocketAddr::new(ip(ASKING_POD), port), node.service());
    let asked = node.in_asking_pod(move || {
        let mut answer = String::new();
        clients::connect((from, to), WAIT).and_then(|mut stream| stream.read_to_string(&mut answer)).ok()?;
        Some(answer)
    });
    let answer = asked.join().expect("a client")?;
    PODS.into_iter().find(|pod| answer.contains(pod))
}

/// IPVS remembers a connection for two minutes after its end.
#[test]
fn a_client_that_uses_its_port_again_never_reaches_a_removed_endpoint() {
    let Some(_turn) = beside_others() else { return };
    let node = Node::new("reused");
    let (ferrule, _) = node.run_ferrule(&[]);
    node.wait_until_served(&ferrule);
    let ports = 40001..40009;
    let first: Vec<_> = ports.clone().map(|port| answered_by(&node, port).expect("an answer")).collect();
    assert!(PODS.iter().all(|pod| first.contains(pod)), "both are used: {first:?}");
    let [leaving, staying] = PODS;
    node.set_endpoints(&[staying]);
    let give_up = Instant::now() + PATIENCE;
    while node.in_use().iter().any(|server| server.ip() == ip(leaving)) {
        assert!(Instant::now() < give_up, "{leaving} is still in use\n{}", ferrule.log().join("\n"));
        std::thread::park_timeout(PAUSE);
    }
    for port in ports {
        assert_eq!(answered_by(&node, port), Some(staying), "from port {port}");
    }
    let settings =
        ["net/ipv4/vs/conntrack", "net/ipv4/vs/expire_nodest_conn", "net/ipv4/vs/expire_quiescent_template"];
    let values = node.run(move || settings.map(|name| sysctl::read(name).expect("a setting")));
    assert_eq!(values, ["1", "1", "1"]);
}

#[test]
fn a_udp_client_leaves_a_removed_endpoint_at_once() {
    let Some(_turn) = beside_others() else { return };
    let node = Node::new("datagrams");
    let (ferrule, _) = node.run_ferrule(&[]);
    node.wait_until_served(&ferrule);
    let client = node.udp_client();
    let answer = || {
        let mut answer = [0; 512];
        client.send(b"who?").expect("it is sent");
        let length = client.recv(&mut answer).ok()?;
        let answer = String::from_utf8_lossy(answer.get(..length)?).into_owned();
        PODS.into_iter().find(|pod| answer.contains(pod))
    };
    let give_up = Instant::now() + PATIENCE;
    let leaving = loop {
        if let Some(pod) = answer() {
            break pod;
        }
        assert!(Instant::now() < give_up, "nobody answers\n{}", ferrule.log().join("\n"));
    };
    let staying: Vec<&str> = PODS.into_iter().filter(|pod| *pod != leaving).collect();
    node.set_endpoints(&staying);
    let left = Instant::now();
    // Its one flow goes on all the time.
    while answer() != Some(staying[0]) {
        assert!(left.elapsed() < PATIENCE, "it stays with {leaving}\n{}", ferrule.log().join("\n"));
    }
    println!("a UDP client had another endpoint {:?} after the change", left.elapsed());
    for _ in 0..10 {
        assert_eq!(answer(), Some(staying[0]));
    }
}

/// Row: ipvs R56
#[test]
fn the_host_does_not_reach_a_load_balancer_whose_ranges_exclude_it() {
    let Some(_turn) = beside_others() else { return };
    let node = Node::new("excluded");
    let vip: SocketAddr = "198.51.100.201:80".parse().expect("an address");
    node.add_load_balancer(vip, &["203.0.113.0/24"]);
    let (ferrule, _) = node.run_ferrule(&[]);
    node.wait_until_served(&ferrule);
    let give_up = Instant::now() + PATIENCE;
    while !node.command("ipvsadm", &["-S", "-n"]).contains(&vip.to_string()) {
        assert!(Instant::now() < give_up, "{}", ferrule.log().join("\n"));
        std::thread::park_timeout(PAUSE);
    }
    // Not bound, so that the source is the load balancer's own address.
    let refused = node.run(move || std::net::TcpStream::connect_timeout(&vip, Duration::from_secs(5)));
    assert_eq!(refused.expect_err("dropped").kind(), std::io::ErrorKind::TimedOut);
    node.ask_from_host();
}

#[test]
fn an_init_container_makes_the_settings_that_the_proxy_then_only_reads() {
    let Some(_turn) = beside_others() else { return };
    let node = Node::new("prepared");
    let flags = [
        "--ipvs-strict-arp",
        "--ipvs-tcp-timeout=123s",
        "--ipvs-tcpfin-timeout=67s",
        "--ipvs-udp-timeout=45s",
    ];
    let init = node.start_by_script(r#"exec "$0" --init-only "$@""#, &flags);
    assert!(init.wait().expect("it ends").success());
    let names = ["net/ipv4/conf/all/arp_ignore", "net/ipv4/conf/all/arp_announce", "net/ipv4/vs/conntrack"];
    let read = move || names.map(|name| sysctl::read(name).expect("a setting"));
    assert_eq!(node.run(read), ["1", "2", "1"]);
    let timeouts = || Ipvs::open_loaded().expect("a socket").expect("IPVS").timeouts().expect("timeouts");
    assert_eq!(node.run(timeouts), Timeouts { tcp: 123, tcp_fin: 67, udp: 45 });

    let read_only =
        r#"mount -o bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && exec "$0" "$@""#;
    let ferrule = node.start_by_script(read_only, &flags);
    node.wait_until_served(&ferrule);
}

#[test]
fn forwarding_that_is_off_is_said() {
    let Some(_turn) = beside_others() else { return };
    let node = Node::new("unforwarded");
    let set = |value: &'static str| {
        node.run(move || std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", value)).expect("a setting");
    };
    set("0");
    let (ferrule, _) = node.run_ferrule(&["--ipvs-sync-period=2s"]);
    let said = ferrule.wait_for("IPv6 forwarding is off", 0, PATIENCE);
    assert!(said.is_some(), "{}", ferrule.log().join("\n"));
    ferrule.kill().expect("it is killed");
    set("1");
    let (ferrule, _) = node.run_ferrule(&["--ipvs-sync-period=2s"]);
    set("0");
    let said = ferrule.wait_for("IPv6 forwarding is off", 0, PATIENCE);
    assert!(said.is_some(), "it is noticed later, too\n{}", ferrule.log().join("\n"));
}
