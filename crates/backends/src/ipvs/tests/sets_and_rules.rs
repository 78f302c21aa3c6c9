//! What is in the sets, and the rules that look there.

use ferrule_kernel::ipset::SetEntry;
use ferrule_kernel::port::AddressSets as _;
use ferrule_model::IpFamily;

use super::Node;
use crate::IpvsOptions;

/// Row: ipvs R4
#[test]
fn a_udp_node_port_is_in_its_set() {
    let node = Node::with(
        "nodePortAddresses 0.0.0.0/0\ndetectLocal none",
        "service svc NodePort clusterIP 10.20.30.41 port p80 80/udp nodePort 3001
        endpoint svc 10.180.0.1 node elsewhere",
    );
    assert_eq!(node.set("KUBE-NODE-PORT-UDP"), ["3001"]);
    assert_eq!(node.chain("nat", "KUBE-NODE-PORT"), ["-p udp KUBE-NODE-PORT-UDP dst -j KUBE-MARK-MASQ"]);
    let services = [
        "-s 127.0.0.0/8 -j RETURN",
        "KUBE-CLUSTER-IP src,dst -j KUBE-MARK-MASQ",
        "-m addrtype --dst-type LOCAL -j KUBE-NODE-PORT",
        "KUBE-CLUSTER-IP dst,dst -j ACCEPT",
    ];
    assert_eq!(node.chain("nat", "KUBE-SERVICES"), services);
}

/// Row: ipvs R6
#[test]
fn sctp_node_ports_are_listed_with_their_addresses() {
    let node = Node::of(
        "node host addresses 100.101.102.103,2001:db8::1 alsoOn 100.101.102.104,100.101.102.105,2001:db8::2,2001:db8::3
        service svc NodePort clusterIP 10.20.30.41 port p80 80/sctp nodePort 3001
        endpoint svc 10.180.0.1 node elsewhere",
    );
    assert_eq!(node.servers().len(), 4);
    let entries = ["100.101.102.103,sctp:3001", "100.101.102.104,sctp:3001", "100.101.102.105,sctp:3001"];
    assert_eq!(node.set("KUBE-NODE-PORT-SCTP-HASH"), entries);
}

/// Row: ipvs R7
#[test]
fn sctp_node_ports_with_local_policy_are_in_both_sets() {
    let node = Node::of(
        "service svc NodePort clusterIP 10.20.30.41 port p80 80/sctp nodePort 3001 externalTrafficPolicy Local
        endpoint svc 10.180.0.1 node host",
    );
    for set in ["KUBE-NODE-PORT-SCTP-HASH", "KUBE-NODE-PORT-LOCAL-SCTP-HASH"] {
        assert_eq!(node.set(set), ["100.101.102.103,sctp:3001"]);
    }
    let rules = [
        "-p sctp KUBE-NODE-PORT-LOCAL-SCTP-HASH dst,dst -j RETURN",
        "-p sctp KUBE-NODE-PORT-SCTP-HASH dst,dst -j KUBE-MARK-MASQ",
    ];
    assert_eq!(node.chain("nat", "KUBE-NODE-PORT"), rules);
    assert_eq!(node.chain("filter", "KUBE-NODE-PORT"), ["KUBE-HEALTH-CHECK-NODE-PORT dst -j ACCEPT"]);
}

/// Row: ipvs R8
#[test]
fn node_ports_with_local_policy_have_local_real_servers() {
    let node = Node::with(
        "nodePortAddresses 100.101.102.0/24",
        "node host addresses 100.101.102.103 alsoOn 2001:db8::1,192.0.2.7
        service svc NodePort clusterIP 10.20.30.41 port p80 80 nodePort 3001 externalTrafficPolicy Local
        endpoint svc 10.180.0.1 node host
        endpoint svc 10.180.1.1 node elsewhere",
    );
    let expected =
        ["10.20.30.41:80/TCP: 10.180.0.1:80, 10.180.1.1:80", "100.101.102.103:3001/TCP: 10.180.0.1:80"];
    assert_eq!(node.servers(), expected);
    assert_eq!(node.set("KUBE-NODE-PORT-TCP"), ["3001"]);
    assert_eq!(node.set("KUBE-NODE-PORT-LOCAL-TCP"), ["3001"]);
    let rules =
        ["-p tcp KUBE-NODE-PORT-LOCAL-TCP dst -j RETURN", "-p tcp KUBE-NODE-PORT-TCP dst -j KUBE-MARK-MASQ"];
    assert_eq!(node.chain("nat", "KUBE-NODE-PORT"), rules);
}

/// Row: ipvs R15
#[test]
fn external_addresses_with_local_policy_are_in_a_set_of_their_own() {
    let node = Node::of(
        "service svc externalIP 50.60.70.81 clusterIP 10.20.30.41 port p80 80 externalTrafficPolicy Local
        endpoint svc 10.180.0.1 node host
        endpoint svc 10.180.1.1 node elsewhere",
    );
    assert!(node.servers().contains(&"50.60.70.81:80/TCP: 10.180.0.1:80".to_owned()));
    assert_eq!(node.set("KUBE-EXTERNAL-IP-LOCAL"), ["50.60.70.81,tcp:80"]);
    assert!(node.set("KUBE-EXTERNAL-IP").is_empty());
    let rules = node.chain("nat", "KUBE-SERVICES");
    let of_external: Vec<_> =
        rules.iter().filter(|rule| rule.contains("EXTERNAL")).map(String::as_str).collect();
    let expected = [
        "KUBE-EXTERNAL-IP-LOCAL dst,dst -m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ACCEPT",
        "KUBE-EXTERNAL-IP-LOCAL dst,dst -m addrtype --dst-type LOCAL -j ACCEPT",
    ];
    assert_eq!(of_external, expected);
}

/// Row: ipvs R16
#[test]
fn a_load_balancer_is_masqueraded() {
    let node = Node::with(
        "detectLocal none\nnodePortAddresses 192.0.2.0/24",
        "service svc LoadBalancer 1.2.3.4 clusterIP 10.20.30.41 port p80 80 nodePort 3001",
    );
    assert_eq!(node.servers(), ["1.2.3.4:80/TCP:", "10.20.30.41:80/TCP:"]);
    assert_eq!(node.set("KUBE-LOAD-BALANCER"), ["1.2.3.4,tcp:80"]);
    let services = [
        "-s 127.0.0.0/8 -j RETURN",
        "KUBE-LOAD-BALANCER dst,dst -j KUBE-LOAD-BALANCER",
        "KUBE-CLUSTER-IP src,dst -j KUBE-MARK-MASQ",
        "-m addrtype --dst-type LOCAL -j KUBE-NODE-PORT",
        "KUBE-CLUSTER-IP dst,dst -j ACCEPT",
        "KUBE-LOAD-BALANCER dst,dst -j ACCEPT",
    ];
    assert_eq!(node.chain("nat", "KUBE-SERVICES"), services);
    assert_eq!(node.chain("nat", "KUBE-LOAD-BALANCER"), ["-j KUBE-MARK-MASQ"]);
}

/// Row: ipvs R17
#[test]
fn a_load_balancer_with_local_policy_keeps_sources() {
    let node = Node::of(
        "service svc LoadBalancer 1.2.3.4 clusterIP 10.20.30.41 port p80 80 nodePort 3001 externalTrafficPolicy Local
        endpoint svc 10.180.0.1 node host
        endpoint svc 10.180.1.1 node elsewhere",
    );
    assert!(node.servers().contains(&"1.2.3.4:80/TCP: 10.180.0.1:80".to_owned()));
    assert_eq!(node.set("KUBE-LOAD-BALANCER-LOCAL"), ["1.2.3.4,tcp:80"]);
    assert_eq!(
        node.chain("nat", "KUBE-LOAD-BALANCER"),
        ["KUBE-LOAD-BALANCER-LOCAL dst,dst -j RETURN", "-j KUBE-MARK-MASQ"]
    );
}

/// Row: ipvs R18
/// Row: ipvs R56
#[test]
fn source_ranges_without_the_node_are_closed_to_it() {
    let node = Node::of(
        "service svc LoadBalancer 1.2.3.4 sourceRanges 10.0.0.0/8 clusterIP 10.20.30.41 port p80 80",
    );
    assert_eq!(node.set("KUBE-LOAD-BALANCER-FW"), ["1.2.3.4,tcp:80"]);
    assert_eq!(node.set("KUBE-LOAD-BALANCER-SOURCE-CIDR"), ["1.2.3.4,tcp:80,10.0.0.0/8"]);
    assert_eq!(
        node.chain("filter", "KUBE-PROXY-FIREWALL"),
        ["KUBE-LOAD-BALANCER-FW dst,dst -j KUBE-SOURCE-RANGES-FIREWALL"]
    );
    let ranges = ["KUBE-LOAD-BALANCER-SOURCE-CIDR dst,dst,src -j RETURN", "-j DROP"];
    assert_eq!(node.chain("filter", "KUBE-SOURCE-RANGES-FIREWALL"), ranges);
    let closed = ["-s 1.2.3.4 -m ipvs --vaddr 1.2.3.4 --vproto tcp --vport 80 -j DROP"];
    assert_eq!(node.chain("filter", "KUBE-IPVS-OUT-FILTER"), closed);
}

/// Row: ipvs R19
#[test]
fn source_ranges_with_the_node_admit_it() {
    let node = Node::of(
        "node host addresses 10.1.1.1
        service svc LoadBalancer 1.2.3.4 sourceRanges 10.0.0.0/8 clusterIP 10.20.30.41 port p80 80",
    );
    assert_eq!(node.set("KUBE-LOAD-BALANCER-SOURCE-IP"), ["1.2.3.4,tcp:80,1.2.3.4"]);
    assert_eq!(node.set("KUBE-LOAD-BALANCER-SOURCE-CIDR"), ["1.2.3.4,tcp:80,10.0.0.0/8"]);
    let ranges = [
        "KUBE-LOAD-BALANCER-SOURCE-CIDR dst,dst,src -j RETURN",
        "KUBE-LOAD-BALANCER-SOURCE-IP dst,dst,src -j RETURN",
        "-j DROP",
    ];
    assert_eq!(node.chain("filter", "KUBE-SOURCE-RANGES-FIREWALL"), ranges);
    assert!(node.chain("filter", "KUBE-IPVS-OUT-FILTER").is_empty());
}

/// Row: ipvs R20
#[test]
fn a_range_of_everyone_is_no_restriction() {
    let node = Node::of(
        "service svc LoadBalancer 1.2.3.4 sourceRanges 0.0.0.0/0,10.0.0.0/8 clusterIP 10.20.30.41 port p80 80",
    );
    assert_eq!(node.filled_sets(), ["KUBE-CLUSTER-IP", "KUBE-IPVS-IPS", "KUBE-LOAD-BALANCER"]);
}

/// Row: ipvs R22
#[test]
fn rules_of_all_kinds_have_their_order() {
    let node = Node::with(
        "detectLocal none",
        "service ext externalIP 50.60.70.81 clusterIP 10.20.30.41 port p80 80
        service lb LoadBalancer 1.2.3.4 clusterIP 10.20.30.42 port p80 80
        service np NodePort clusterIP 10.20.30.43 port p80 80 nodePort 3001",
    );
    let targets: Vec<String> = node
        .chain("nat", "KUBE-SERVICES")
        .iter()
        .map(|rule| {
            let words: Vec<&str> = rule.split(' ').collect();
            format!("{} {}", words[0], words.last().unwrap())
        })
        .collect();
    let expected = [
        "-s RETURN",
        "KUBE-LOAD-BALANCER KUBE-LOAD-BALANCER",
        "KUBE-CLUSTER-IP KUBE-MARK-MASQ",
        "KUBE-EXTERNAL-IP KUBE-MARK-MASQ",
        "KUBE-EXTERNAL-IP ACCEPT",
        "KUBE-EXTERNAL-IP ACCEPT",
        "-m KUBE-NODE-PORT",
        "KUBE-CLUSTER-IP ACCEPT",
        "KUBE-LOAD-BALANCER ACCEPT",
    ];
    assert_eq!(targets, expected);
}

/// Row: ipvs R23
#[test]
fn health_check_ports_follow_their_services() {
    let lb = |name: &str, at: u8, port: u16, policy: &str| {
        format!(
            "service {name} LoadBalancer 1.2.3.{at} clusterIP 10.20.30.{at} port p80 80 externalTrafficPolicy {policy} healthCheckNodePort {port}"
        )
    };
    let mut node = Node::of(
        &[lb("a", 1, 30000, "Local"), lb("b", 2, 30001, "Local"), lb("c", 3, 30002, "Cluster")].join("\n"),
    );
    assert_eq!(node.set("KUBE-HEALTH-CHECK-NODE-PORT"), ["30000", "30001"]);
    node.then(&lb("a", 1, 30005, "Local"));
    assert_eq!(node.set("KUBE-HEALTH-CHECK-NODE-PORT"), ["30001", "30005"]);
    node.then("gone service a\ngone service b");
    assert!(node.set("KUBE-HEALTH-CHECK-NODE-PORT").is_empty());
}

/// Row: ipvs R46
/// Row: ipvs R47
#[test]
fn what_is_marked_is_masqueraded_in_both_families() {
    let node =
        Node::start(IpFamily::V6, "", "service svc clusterIP fd96::1 port p80 80", IpvsOptions::default());
    assert_eq!(node.chain("nat", "KUBE-SERVICES")[0], "-s ::1/128 -j RETURN");
    let last = node.chain("nat", "KUBE-POSTROUTING").pop();
    assert_eq!(last.as_deref(), Some("-j MASQUERADE --random-fully"));
    assert_eq!(node.filled_sets(), ["KUBE-6-CLUSTER-IP", "KUBE-6-IPVS-IPS"]);
}

/// Row: ipvs R48
#[test]
fn jumps_lead_into_the_chains() {
    let node = Node::of("service svc clusterIP 10.20.30.41 port p80 80");
    let jumps = |table, chain| node.chain(table, chain);
    assert_eq!(jumps("nat", "OUTPUT"), ["-j KUBE-SERVICES"]);
    assert_eq!(jumps("nat", "PREROUTING"), ["-j KUBE-SERVICES"]);
    assert_eq!(jumps("nat", "POSTROUTING"), ["-j KUBE-POSTROUTING"]);
    assert_eq!(
        jumps("filter", "INPUT"),
        ["-j KUBE-IPVS-FILTER", "-j KUBE-PROXY-FIREWALL", "-j KUBE-NODE-PORT"]
    );
    assert_eq!(jumps("filter", "FORWARD"), ["-j KUBE-PROXY-FIREWALL", "-j KUBE-FORWARD"]);
    assert_eq!(jumps("filter", "OUTPUT"), ["-j KUBE-IPVS-OUT-FILTER"]);
}

/// Row: ipvs R48
#[test]
fn chains_are_those_of_kube_proxy_in_its_order() {
    let node = Node::of("service svc clusterIP 10.20.30.41 port p80 80");
    let plan = node.world.family(IpFamily::V4).expect("a plan");
    let rules = crate::ipvs::rules::rules(&plan.node, &crate::ipvs::rules::RuleInput::default());
    let of = |table| -> Vec<&str> {
        rules.chains.iter().filter(|chain| chain.table == table).map(|chain| chain.name).collect()
    };
    let nat = ["KUBE-SERVICES", "KUBE-POSTROUTING", "KUBE-NODE-PORT", "KUBE-LOAD-BALANCER", "KUBE-MARK-MASQ"];
    assert_eq!(of("nat"), nat);
    let filter = [
        "KUBE-FORWARD",
        "KUBE-NODE-PORT",
        "KUBE-PROXY-FIREWALL",
        "KUBE-SOURCE-RANGES-FIREWALL",
        "KUBE-IPVS-FILTER",
        "KUBE-IPVS-OUT-FILTER",
    ];
    assert_eq!(of("filter"), filter);
    assert_eq!(rules.chains.len(), nat.len() + filter.len());
}

/// Row: ipvs R51
/// Row: ipvs R52
#[test]
fn sets_are_corrected_to_what_is_wanted() {
    let mut node = Node::of("service svc NodePort clusterIP 172.17.0.4 port p80 80 nodePort 8080");
    let specs = crate::ipvs::sets::specs(IpFamily::V4);
    let spec = |name: &str| specs.iter().find(|spec| &*spec.name == name).unwrap();
    let change = |set, entry, add| ferrule_kernel::ipset::SetChange { set: spec(set), entry, add };
    let wrong = SetEntry::IpPort { ip: "172.17.0.5".parse().unwrap(), protocol: 17, port: 53 };
    let right = SetEntry::IpPort { ip: "172.17.0.4".parse().unwrap(), protocol: 6, port: 80 };
    let mut changes = vec![change("KUBE-CLUSTER-IP", wrong, true), change("KUBE-CLUSTER-IP", right, false)];
    changes
        .extend([80, 9090, 8081, 8082].map(|port| change("KUBE-NODE-PORT-TCP", SetEntry::Port(port), true)));
    node.kernel.clone().apply(&changes).unwrap();
    node.verify();
    assert_eq!(node.set("KUBE-CLUSTER-IP"), ["172.17.0.4,tcp:80"]);
    assert_eq!(node.set("KUBE-NODE-PORT-TCP"), ["8080"]);
}

/// Row: ipvs R57
#[test]
fn a_range_of_one_host_is_written_once() {
    let mut node = Node::of(
        "service svc LoadBalancer 1.2.3.4 sourceRanges 10.0.0.1/32 clusterIP 10.20.30.41 port p80 80",
    );
    node.kernel.take_writes();
    node.verify();
    node.restart();
    node.verify();
    assert_eq!(node.kernel.take_writes(), Vec::<String>::new());
}

/// Row: ipvs R58
#[test]
fn rules_that_were_removed_are_put_back() {
    let mut node = Node::of("service svc clusterIP 10.20.30.41 port p80 80");
    let before = node.chain("nat", "KUBE-SERVICES");
    node.tables.empty("nat", "KUBE-SERVICES");
    node.tables.empty("nat", "PREROUTING");
    node.verify();
    assert_eq!(node.chain("nat", "KUBE-SERVICES"), before);
    assert_eq!(node.chain("nat", "PREROUTING"), ["-j KUBE-SERVICES"]);
}

#[test]
fn rules_are_written_only_if_they_change() {
    let mut node = Node::of(
        "service svc clusterIP 10.20.30.41 port p80 80\nservice other clusterIP 10.20.30.42 port p80 80",
    );
    node.tables.take_writes();
    node.then("endpoint svc 10.180.0.1 node elsewhere");
    node.then("gone service other");
    assert_eq!(node.tables.take_writes(), 0);
    node.then("service lb LoadBalancer 1.2.3.4 clusterIP 10.20.30.43 port p80 80");
    assert_eq!(node.tables.take_writes(), 1);
}

#[test]
fn what_kube_proxy_wrote_in_another_order_is_not_rewritten() {
    let lb = |at: u8| {
        format!(
            "service s{at} LoadBalancer 1.2.3.{at} sourceRanges 10.0.0.0/8 clusterIP 10.20.30.{at} port p80 80\n"
        )
    };
    let mut node = Node::of(&(1..4).map(lb).collect::<String>());
    node.tables.reverse("filter", "KUBE-IPVS-OUT-FILTER");
    node.tables.take_writes();
    node.restart();
    node.verify();
    assert_eq!(node.tables.take_writes(), 0);
}
