//! What this machine can serve, and whether the settings fit it.

use ferrule_kernel::nft::TABLE;
use ferrule_kernel::probe::{Findings, probe};
use ferrule_kernel::sysctl;
use ferrule_model::{NodeIps, PerFamily};
use tracing::{info, warn};

use super::start::StartError;
use crate::causes::with_causes;
use crate::resolve::{
    Families, FamilyFacts, NodeFacts, SanityFacts, Stack, check_families, check_node_ports, families,
    node_ports,
};
use crate::settings::Settings;

/// The families that are wanted and that this kernel lets us serve. The primary one must be among them.
pub fn usable_families(settings: &Settings, node: &NodeFacts) -> Result<Families, StartError> {
    let primary = NodeIps::settle(&node.host_ips, Some(settings.bind_address)).primary;
    let wanted = families(settings.mode, &family_facts(), primary)?;
    let Findings { kernel, ipv4, ipv6, conntrack } = probe(TABLE);
    info!(v = 2, kernel, "Kernel");
    if let Err(error) = conntrack {
        warn!(err = with_causes(&error), "Stale UDP flows cannot be found and stay until they expire");
    }
    let mut found = PerFamily { v4: Some(ipv4), v6: Some(ipv6) };
    let mut usable = Vec::new();
    for family in wanted.served() {
        match found.slot(family).take() {
            Some(Ok(())) => usable.push(family),
            Some(Err(error)) if family == wanted.primary => return Err(error.into()),
            Some(Err(error)) => {
                warn!(%family, err = with_causes(&error), "Family cannot be served");
            }
            None => {}
        }
    }
    let stack = if usable.len() > 1 { Stack::Dual } else { Stack::Single };
    Ok(Families { primary, stack })
}

/// Complains about settings that do not fit this node; some make it no use to go on.
pub fn check(settings: &Settings, node: &NodeFacts, families: Families) -> Result<(), StartError> {
    let ips = NodeIps::settle(&node.host_ips, Some(settings.bind_address));
    let blocks = node_ports(&settings.node_port_addresses, &ips).blocks;
    let facts =
        SanityFacts { pod_cidrs: &node.pod_cidrs, node_port_blocks: &blocks, primary: families.primary };
    if let Some(complaint) = check_node_ports(settings, &facts) {
        warn!(problem = complaint.text(), "Kube-proxy configuration may be incomplete or incorrect");
    }
    let verdict = check_families(settings, &facts, families);
    if verdict.is_fatal() {
        return Err(StartError::Unfit(verdict.text()));
    }
    if !verdict.complaints.is_empty() {
        warn!(problem = verdict.text(), "Kube-proxy configuration may be incomplete or incorrect");
    }
    Ok(())
}

fn family_facts() -> FamilyFacts {
    FamilyFacts {
        iptables: false,
        ip6tables: false,
        has_if_inet6: std::path::Path::new("/proc/net/if_inet6").exists(),
        disable_ipv6: sysctl::read("net/ipv6/conf/all/disable_ipv6").unwrap_or_default(),
    }
}
