//! What an operator sees of ipvs mode on a node, by the programs an operator uses.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use ferrule_testkit::netns::Namespace;

/// All of it, as lines that say where they are from. What may differ between two proxies is left out, each for its reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump(BTreeSet<String>);

/// Chains whose rules have no order: one for each load balancer, and kube-proxy goes through Services in any order.
const UNORDERED: [&str; 1] = ["KUBE-IPVS-OUT-FILTER"];
/// Words of a set's header that say nothing about what is in it: the seed of its hash is random, and how many slots a bucket has
/// is only said where a program chose it.
const CHOSEN_BY_THE_KERNEL: [&str; 2] = ["initval", "bucketsize"];

impl Dump {
    /// Reads it in a namespace. The address by which the node reaches the API server differs between nodes, and is served like its others.
    pub fn read(namespace: &Namespace, api_address: &str) -> Self {
        let output = |program: &str, arguments: &[&str]| {
            let output =
                namespace.feed(program, arguments, "").map_err(|error| error.with_sources()).expect(program);
            String::from_utf8(output.stdout).expect("text").replace(api_address, "API-ADDRESS")
        };
        let mut lines = BTreeSet::new();
        lines.extend(output("ipvsadm", &["-S", "-n"]).lines().map(|line| format!("ipvsadm {}", line.trim())));
        lines.extend(output("ipset", &["save"]).lines().map(|line| format!("ipset {}", set_line(line))));
        let addresses = output("ip", &["-o", "address", "show"]);
        let bound = addresses.lines().filter(|line| line.contains("kube-ipvs0"));
        // Before each is the number of the interface.
        lines.extend(bound.filter_map(|line| line.split_once(": ")).map(|(_, line)| squeezed(line)));
        let interfaces = output("ip", &["-o", "-d", "link", "show"]);
        let link = interfaces.lines().filter(|line| line.contains("kube-ipvs0"));
        let link = link.filter_map(|line| line.split_once(": "));
        // Its hardware address is random.
        lines.extend(link.filter_map(|(_, line)| Some(squeezed(line.split_once("link/")?.0))));
        for program in ["iptables-save", "ip6tables-save"] {
            lines.extend(rules(program, &output(program, &[])));
        }
        Self(lines)
    }

    /// Without real servers that drain: which of them have connections depends on whom the scheduler chose, and when they are
    /// counted on the proxy's clock.
    #[allow(dead_code, reason = "where no packets are sent nothing drains")]
    pub fn without_drained(self) -> Self {
        let is_drained = |line: &String| line.starts_with("ipvsadm -a ") && line.ends_with(" -w 0");
        Self(self.0.into_iter().filter(|line| !is_drained(line)).collect())
    }

    /// Whether this has real servers that the other does not have, and all else is equal.
    #[allow(dead_code, reason = "of use where Services come and go quickly")]
    pub fn has_more_real_servers_than(&self, other: &Self) -> bool {
        let mut more = self.0.difference(&other.0);
        other.0.is_subset(&self.0) && more.all(|line| line.starts_with("ipvsadm -a "))
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// What only one of them has.
    pub fn differences(theirs: &Self, ours: &Self) -> String {
        let mut text = String::new();
        for line in theirs.0.difference(&ours.0) {
            let _ = writeln!(text, "kube-proxy: {line}");
        }
        for line in ours.0.difference(&theirs.0) {
            let _ = writeln!(text, "ferrule:    {line}");
        }
        text
    }
}

fn set_line(line: &str) -> String {
    let mut kept = Vec::new();
    let mut words = line.split_whitespace();
    while let Some(word) = words.next() {
        if CHOSEN_BY_THE_KERNEL.contains(&word) {
            words.next();
        } else {
            kept.push(word);
        }
    }
    kept.join(" ")
}

fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The rules in and to chains of proxies, each with its place among those of its chain.
fn rules(program: &str, saved: &str) -> Vec<String> {
    let (mut table, mut chain, mut at) = (String::new(), String::new(), 0);
    let mut rules = Vec::new();
    for line in saved.lines() {
        if let Some(name) = line.strip_prefix('*') {
            name.clone_into(&mut table);
        }
        if !line.contains("KUBE-") {
            continue;
        }
        if let Some(declared) = line.strip_prefix(':') {
            let name = declared.split(' ').next().unwrap_or_default();
            rules.push(format!("{program} {table} {name}"));
        } else if let Some(rule) = line.strip_prefix("-A ") {
            let name = rule.split(' ').next().unwrap_or_default();
            at = if name == chain { at + 1 } else { 0 };
            name.clone_into(&mut chain);
            let place = if UNORDERED.contains(&name) { String::new() } else { format!("{at} ") };
            rules.push(format!("{program} {table} {place}{rule}"));
        }
    }
    rules
}
