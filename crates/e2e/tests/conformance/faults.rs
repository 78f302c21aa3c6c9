//! Shadow mode beside the real kube-proxy's rules: it writes nothing, and finds whatever is broken in them.
//!
//! kube-proxy is ended once its rules are complete, so that what is broken stays so.

use std::time::Duration;

use ferrule_kernel::nft::{Family, NftClient};
use ferrule_kernel::port::NftReader as _;
use ferrule_testkit::World;
use ferrule_testkit::netns::{Namespace, NetSpec};

use crate::pair::Pair;
use crate::shrink;

/// What is there is read again and again for so long.
const PATIENCE: Duration = Duration::from_secs(2);

/// A cluster in which every chain and every map has something to do.
const CLUSTER: [&str; 19] = [
    "node node-a  addresses 192.0.2.10,2001:db8::10  alsoOn 192.0.2.77,2001:db8::77  podCIDR 10.244.1.0/24,fd44:0:0:1::/64  zone zone-a",
    "service shop/web  clusterIP 10.96.80.1,fd00:96::8:1  port http 80→8080",
    "endpoint shop/web 10.244.1.5  node node-a",
    "endpoint shop/web 10.244.2.5  node node-b",
    "endpoint shop/web fd44:0:0:1::5  node node-a",
    "endpoint shop/web fd44:0:0:2::5  node node-b",
    "service shop/sticky  clusterIP 10.96.80.2  port http 80→8080  sessionAffinity ClientIP 600",
    "endpoint shop/sticky 10.244.1.6  node node-a",
    "endpoint shop/sticky 10.244.2.6  node node-b",
    "service shop/lb  LoadBalancer 198.51.100.20 2001:db8:1::20  clusterIP 10.96.80.3,fd00:96::8:3  port https 443→8443  nodePort 30443  sourceRanges 203.0.113.0/24,2001:db8:f::/48",
    "endpoint shop/lb 10.244.1.8  node node-a",
    "endpoint shop/lb fd44:0:0:1::8  node node-a",
    "service shop/local  LoadBalancer 198.51.100.21  clusterIP 10.96.80.4  port http 80→8080  nodePort 30080  externalTrafficPolicy Local  externalIP 198.51.100.77",
    "endpoint shop/local 10.244.1.9  node node-a",
    "endpoint shop/local 10.244.2.9  node node-b",
    "service shop/none  LoadBalancer 198.51.100.22  clusterIP 10.96.80.5,fd00:96::8:5  port http 80→8080  nodePort 30081",
    "service shop/own  clusterIP 10.96.80.7  port http 80→8080  externalIP 192.0.2.77",
    "service shop/dns  clusterIP 10.96.80.6  port dns 53/udp",
    "endpoint shop/dns 10.244.2.53  node node-b",
];

const PROXY: &str = "detectLocal ClusterCIDR 10.244.0.0/16,fd44::/32\nnodePortAddresses primary";

/// How a mode's rules are read, damaged and put back.
pub trait Rules {
    /// The mode.
    const MODE: &'static str;

    /// All rules of IPv4, as text.
    fn saved(node: &Namespace) -> String;

    /// Puts them back.
    fn restore(node: &Namespace, saved: &str);

    /// What can be broken, in commands of the mode's own tool.
    fn faults(node: &Namespace) -> Vec<String>;

    /// Breaks it.
    fn inflict(node: &Namespace, fault: &str);

    /// What changes with every write.
    fn fingerprint(node: &Namespace) -> String {
        generation(node).to_string()
    }

    /// Whether packets meet the same without it.
    fn is_harmless(_fault: &str) -> bool {
        false
    }
}

/// Inflicts all faults of a mode, one after another.
pub fn check<R: Rules>() {
    let loopback = if R::MODE == "iptables" { "\nloopbackNodePorts inKernel" } else { "" };
    let lines = CLUSTER.map(str::to_owned);
    let world = shrink::world(&format!("mode {}{loopback}\n{PROXY}", R::MODE), &lines).expect("a cluster");
    let mut pair = Pair::build(hosts(&world));
    pair.settle(&world).expect("both proxies serve");
    pair.shadow_agrees().expect("no difference");
    pair.end_theirs();
    let before = R::fingerprint(pair.theirs.net.node());
    pair.start_shadow_again();
    pair.shadow_agrees().expect("no difference");
    assert_eq!(R::fingerprint(pair.theirs.net.node()), before, "something was written");
    let node = pair.theirs.net.node();
    let saved = R::saved(node);
    let faults: Vec<String> = R::faults(node).into_iter().filter(|fault| !R::is_harmless(fault)).collect();
    let mut missed = Vec::new();
    for fault in &faults {
        R::inflict(node, fault);
        if pair.shadow_differences(PATIENCE).is_empty() {
            missed.push(fault);
        }
        R::restore(node, &saved);
        pair.shadow_agrees()
            .map_err(|problem| format!("put back after {fault}: {problem}"))
            .expect("no difference");
    }
    println!("{}: {} of {} faults were found", R::MODE, faults.len() - missed.len(), faults.len());
    assert!(missed.is_empty(), "not found: {missed:#?}");
    assert!(faults.len() > 20, "only {} faults", faults.len());
}

fn hosts(world: &World) -> NetSpec {
    let mut spec = NetSpec::node(
        ["192.0.2.10", "192.0.2.77", "2001:db8::10", "2001:db8::77"]
            .map(|ip| ip.parse().expect("an address")),
    );
    spec.add_world(world);
    spec
}

/// It grows with every commit of anybody.
fn generation(node: &Namespace) -> u32 {
    let read = || NftClient::open(Family::Ip).and_then(|mut client| client.generation());
    node.run(read).expect("the node").expect("the generation")
}

/// kube-proxy's nftables table: each element and each rule.
pub struct Table;

impl Rules for Table {
    const MODE: &'static str = "nftables";

    fn saved(node: &Namespace) -> String {
        listed(node, &["list", "table", "ip", "kube-proxy"])
    }

    fn restore(node: &Namespace, saved: &str) {
        let text = format!("delete table ip kube-proxy\n{saved}");
        node.feed("nft", &["-f", "-"], &text).expect("the table is put back");
    }

    /// Rules by the handles they have now: an inserted copy of the table counts on from where it was.
    fn faults(node: &Namespace) -> Vec<String> {
        let text = listed(node, &["-a", "list", "table", "ip", "kube-proxy"]);
        elements(&text).into_iter().chain(rules(&text)).collect()
    }

    fn inflict(node: &Namespace, fault: &str) {
        let command = match fault.strip_prefix("delete the rule ") {
            Some(rule) => {
                let text = listed(node, &["-a", "list", "table", "ip", "kube-proxy"]);
                let (nth, _) = rule.split_once(' ').expect("a number");
                let nth: usize = nth.parse().expect("a number");
                deletions(&text).into_iter().nth(nth).expect("the same rules")
            }
            None => fault.to_owned(),
        };
        node.feed("nft", &["-f", "-"], &command).expect("a fault");
    }

    /// Ports of a cluster IP without endpoints are refused like those that it does not have.
    fn is_harmless(fault: &str) -> bool {
        fault.starts_with("delete element ip kube-proxy no-endpoint-services { 10.96.80.")
    }
}

fn listed(node: &Namespace, arguments: &[&str]) -> String {
    let output = node.feed("nft", arguments, "").expect("the table");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The deletion of each element of each set that packets do not write.
fn elements(text: &str) -> Vec<String> {
    let (mut set, mut found, mut inside) = ("", Vec::new(), false);
    for line in text.lines().map(str::trim) {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["set" | "map", name, "{", ..] = words.as_slice() {
            set = name;
        }
        let list = match line.strip_prefix("elements = { ") {
            Some(list) => list,
            None if inside => line,
            None => continue,
        };
        inside = !list.ends_with('}');
        let each = list.trim_end_matches(" }").split(',').map(str::trim).filter(|each| !each.is_empty());
        found.extend(
            each.map(|each| format!("delete element ip kube-proxy {set} {{ {} }}", without_comment(each))),
        );
    }
    found
}

/// `key comment "…" : verdict` as `key : verdict`.
fn without_comment(element: &str) -> String {
    let Some((key, rest)) = element.split_once(" comment \"") else { return element.to_owned() };
    let verdict = rest.split_once('"').map_or("", |(_, verdict)| verdict);
    format!("{key}{verdict}")
}

/// Each rule by its number, with its text for a reader.
fn rules(text: &str) -> Vec<String> {
    let each = rule_lines(text).into_iter().enumerate();
    each.map(|(nth, (chain, rule, _))| format!("delete the rule {nth} of {chain}: {rule}")).collect()
}

fn deletions(text: &str) -> Vec<String> {
    let each = rule_lines(text).into_iter();
    each.map(|(chain, _, handle)| format!("delete rule ip kube-proxy {chain} handle {handle}")).collect()
}

/// The chain, the text and the handle of each rule.
fn rule_lines(text: &str) -> Vec<(&str, &str, &str)> {
    let (mut chain, mut found) = ("", Vec::new());
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("chain ") {
            chain = name.split(' ').next().unwrap_or_default();
        } else if let Some((rule, handle)) = line.split_once(" # handle ")
            && !chain.is_empty()
            && !rule.ends_with('{')
        {
            found.push((chain, rule, handle));
        }
    }
    found
}

/// kube-proxy's iptables rules: each rule of each of its chains, and each jump to them.
pub struct Chains;

const TABLES: [&str; 3] = ["nat", "filter", "mangle"];

impl Rules for Chains {
    const MODE: &'static str = "iptables";

    fn saved(node: &Namespace) -> String {
        let output = node.feed("iptables-save", &[], "").expect("the rules");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn restore(node: &Namespace, saved: &str) {
        node.feed("iptables-restore", &[], saved).expect("the rules are put back");
    }

    fn faults(node: &Namespace) -> Vec<String> {
        let saved = Self::saved(node);
        let (mut table, mut faults) = ("", Vec::new());
        for line in saved.lines() {
            if let Some(name) = line.strip_prefix('*') {
                table = name;
            } else if let Some(rule) = line.strip_prefix("-A ")
                && TABLES.contains(&table)
                && rule.contains("KUBE-")
            {
                faults.push(format!("*{table}\n-D {rule}\nCOMMIT"));
            }
        }
        faults
    }

    fn inflict(node: &Namespace, fault: &str) {
        node.feed("iptables-restore", &["--noflush"], &format!("{fault}\n")).expect("a fault");
    }
}

/// kube-proxy's virtual servers, real servers, sets and addresses.
pub struct VirtualServers;

/// What divides the parts of what is saved.
const NEXT_PART: &str = "\n---\n";

impl Rules for VirtualServers {
    const MODE: &'static str = "ipvs";

    fn saved(node: &Namespace) -> String {
        let servers = printed(node, "ipvsadm", &["-S", "-n"]);
        let sets = printed(node, "ipset", &["save"]);
        let addresses = printed(node, "ip", &["-4", "-o", "address", "show", "dev", "kube-ipvs0"]);
        let addresses = addresses.lines().filter_map(|line| line.split_whitespace().nth(3));
        [servers, sets, addresses.collect::<Vec<_>>().join("\n")].join(NEXT_PART)
    }

    fn restore(node: &Namespace, saved: &str) {
        let [servers, sets, addresses] = parts(saved);
        printed(node, "ipvsadm", &["-C"]);
        node.feed("ipvsadm", &["-R"], servers).expect("virtual servers are put back");
        node.feed("ipset", &["restore", "-exist"], sets).expect("sets are put back");
        for address in addresses.lines() {
            printed(node, "ip", &["address", "replace", address, "dev", "kube-ipvs0"]);
        }
    }

    fn faults(node: &Namespace) -> Vec<String> {
        let saved = Self::saved(node);
        let [servers, sets, addresses] = parts(&saved);
        let deleted = |line: &str| {
            // A virtual server as `-A -t 10.96.0.1:80 -s rr`, a real one as `-a -t 10.96.0.1:80 -r 10.244.0.1:80 -m -w 1`.
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["-A", kind, address, ..] => Some(format!("ipvsadm -D {kind} {address}")),
                ["-a", kind, address, "-r", server, ..] => {
                    Some(format!("ipvsadm -d {kind} {address} -r {server}"))
                }
                _ => None,
            }
        };
        let is_ours = |line: &&str| line.starts_with("add KUBE-") && !line.starts_with("add KUBE-6-");
        let entries = sets.lines().filter(is_ours).map(|line| line.replacen("add", "ipset del", 1));
        let addresses = addresses.lines().map(|address| format!("ip address del {address} dev kube-ipvs0"));
        servers
            .lines()
            .filter(|line| !line.contains('['))
            .filter_map(deleted)
            .chain(entries)
            .chain(addresses)
            .collect()
    }

    fn inflict(node: &Namespace, fault: &str) {
        let words: Vec<&str> = fault.split(' ').collect();
        printed(node, words[0], &words[1..]);
    }

    fn fingerprint(node: &Namespace) -> String {
        Self::saved(node)
    }
}

/// Virtual servers, sets, addresses.
fn parts(saved: &str) -> [&str; 3] {
    let parts: Vec<&str> = saved.split(NEXT_PART).collect();
    parts.try_into().expect("three parts")
}

fn printed(node: &Namespace, program: &str, arguments: &[&str]) -> String {
    let output = node.feed(program, arguments, "").expect("a program of ipvs mode");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
