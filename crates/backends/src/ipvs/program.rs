//! What ipvs mode makes of a plan, as lines that people read: stories have them in a section.

use ferrule_plan::FamilyPlan;

use super::kernel::{INTERFACE, scheduler};
use super::rules::rules;
use super::sets::AddressSet;
use super::wanted::{Wanted, WantedService};

/// Virtual servers, addresses, entries of sets and rules, without the comments of rules.
///
/// ```text
/// virtual server 10.96.0.10:80/TCP rr → 10.244.1.5:8080, 10.244.2.5:8080
/// kube-ipvs0 10.96.0.10
/// KUBE-CLUSTER-IP 10.96.0.10,tcp:80
/// nat KUBE-SERVICES -s 127.0.0.0/8 -j RETURN
/// ```
pub fn program(plan: &FamilyPlan) -> Vec<String> {
    let wanted = Wanted::from_plan(plan, &scheduler(""));
    let mut lines: Vec<String> = wanted.services().map(|(_, service)| virtual_server(service)).collect();
    lines.extend(wanted.addresses().iter().map(|address| format!("{INTERFACE} {address}")));
    for set in AddressSet::ALL {
        let name = set.name(plan.node.family);
        lines.extend(wanted.entries(set).map(|entry| format!("{name} {entry}")));
    }
    for chain in rules(&plan.node, &wanted.rule_input()).chains {
        let rules = chain.rules.iter().map(|rule| without_comment(rule.as_str()));
        lines.extend(rules.map(|rule| format!("{} {} {rule}", chain.table, chain.name)));
    }
    lines
}

fn virtual_server(service: &WantedService) -> String {
    let server = &service.server;
    let sticky = if server.timeout > 0 { format!(" persistent {}s", server.timeout) } else { String::new() };
    let real: Vec<String> = service.real_servers().map(|address| address.to_string()).collect();
    let real = if real.is_empty() { "nothing".to_owned() } else { real.join(", ") };
    format!("virtual server {} {}{sticky} → {real}", server.id, server.scheduler)
}

fn without_comment(rule: &str) -> String {
    const BEGIN: &str = "-m comment --comment \"";
    match rule.split_once(BEGIN) {
        Some((before, rest)) => {
            let after = rest.split_once('"').map_or("", |(_, after)| after);
            format!("{before}{}", after.trim_start())
        }
        None => rule.to_owned(),
    }
}
