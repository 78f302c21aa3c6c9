//! What this machine can serve, and whether the settings fit it.

use ferrule_kernel::nft::TABLE;
use ferrule_kernel::probe::{Findings, probe};
use ferrule_kernel::sysctl;
use ferrule_model::{IpFamily, NodeIps, PerFamily};
use tracing::{info, warn};

use super::iptables::{self, Served};
use super::start::StartError;
use crate::causes::with_causes;
use crate::resolve::{
    Families, FamilyFacts, NodeFacts, SanityFacts, Stack, check_families, check_node_ports, families,
    node_ports,
};
use crate::settings::{ProxyMode, Settings};

/// What a mode can serve on this machine.
pub enum Usable {
    /// nftables mode, in these families.
    Nftables(Families),
    /// iptables mode, in these families, with these programs.
    Iptables(Families, Served),
}

impl Usable {
    /// The families.
    pub fn families(&self) -> Families {
        match self {
            Self::Nftables(families) | Self::Iptables(families, _) => *families,
        }
    }

    /// The iptables programs that are used.
    pub fn programs(&self) -> Served {
        match self {
            Self::Nftables(_) => Served::default(),
            Self::Iptables(_, served) => *served,
        }
    }
}

/// What can be served here of what is wanted. The primary family must be among it.
pub fn usable(settings: &Settings, node: &NodeFacts) -> Result<Usable, StartError> {
    let primary = NodeIps::settle(&node.host_ips, Some(settings.bind_address)).primary;
    match settings.mode {
        ProxyMode::Nftables => usable_nftables(primary).map(Usable::Nftables),
        ProxyMode::Iptables => usable_iptables(primary),
        mode @ (ProxyMode::Ipvs | ProxyMode::Userspace) => Err(StartError::ModeNotBuilt(mode)),
    }
}

fn usable_nftables(primary: IpFamily) -> Result<Families, StartError> {
    let wanted = families(ProxyMode::Nftables, &family_facts((true, true)), primary)?;
    let Findings { kernel, ipv4, ipv6, conntrack } = probe(TABLE);
    info!(v = 2, kernel, "Kernel");
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
    if let Err(error) = conntrack {
        warn!(err = with_causes(&error), "Stale flows cannot be found and stay until they expire");
    }
    let stack = if usable.len() > 1 { Stack::Dual } else { Stack::Single };
    Ok(Families { primary, stack })
}

fn usable_iptables(primary: IpFamily) -> Result<Usable, StartError> {
    let mut found = iptables::usable();
    let works = |family| matches!(found.get(family), Some(Ok(_)));
    let facts = family_facts((works(IpFamily::V4), works(IpFamily::V6)));
    if let Some(Err(error)) = found.slot(primary).take_if(|found| found.is_err()) {
        return Err(StartError::Iptables(error));
    }
    let wanted = families(ProxyMode::Iptables, &facts, primary)?;
    let mut served = Served::default();
    for family in IpFamily::BOTH {
        match found.slot(family).take() {
            Some(Ok(programs)) if wanted.served().contains(&family) => served.set(family, programs),
            Some(Err(error)) => warn!(%family, err = with_causes(&error), "Family cannot be served"),
            Some(Ok(_)) | None => {}
        }
    }
    Ok(Usable::Iptables(wanted, served))
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

fn family_facts((v4, v6): (bool, bool)) -> FamilyFacts {
    FamilyFacts {
        iptables: v4,
        ip6tables: v6,
        has_if_inet6: std::path::Path::new("/proc/net/if_inet6").exists(),
        disable_ipv6: sysctl::read("net/ipv6/conf/all/disable_ipv6").unwrap_or_default(),
    }
}
