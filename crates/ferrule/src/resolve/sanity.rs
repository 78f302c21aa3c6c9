//! Settings that are valid one by one and odd together: what to complain about, and what is fatal.
//!
//! "Wrong family" means a list that is not empty and has nothing of the primary family.

use std::net::IpAddr;

use ferrule_model::IpFamily;
use ipnet::IpNet;

use super::families::{Families, Stack};
use crate::settings::{DetectLocal, Healthz, Settings, SourceVip};

/// What the checks look at beside the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SanityFacts<'a> {
    /// This node's pod blocks.
    pub pod_cidrs: &'a [IpNet],
    /// The expanded NodePort blocks.
    pub node_port_blocks: &'a [IpNet],
    /// The family of the node's first address.
    pub primary: IpFamily,
}

/// A complaint about NodePort addresses; never fatal, and never more than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodePortComplaint {
    /// The list is empty, so every address of the node accepts NodePorts.
    AllAddresses,
    /// The cluster is dual-stack and the list leaves the other family open.
    OtherFamilyUnrestricted(IpFamily),
    /// The list has nothing of the primary family, which is therefore open.
    PrimaryFamilyUnrestricted(IpFamily),
}

impl NodePortComplaint {
    /// What to tell the operator.
    pub fn text(self) -> String {
        match self {
            Self::AllAddresses => {
                "nodePortAddresses is not set, so NodePorts are served on every address of the \
                                   node; consider nodePortAddresses: [primary]"
                    .to_owned()
            }
            Self::OtherFamilyUnrestricted(family) | Self::PrimaryFamilyUnrestricted(family) => format!(
                "nodePortAddresses names no {family} address, so NodePorts are served on every {family} address \
                 of the node"
            ),
        }
    }
}

/// Looks at the NodePort addresses.
pub fn check_node_ports(settings: &Settings, facts: &SanityFacts<'_>) -> Option<NodePortComplaint> {
    let primary = facts.primary;
    let blocks = facts.node_port_blocks;
    let has = |family| blocks.iter().any(|net| IpFamily::of_net(net) == family);
    let lists = [&settings.cluster_cidrs[..], blocks, &settings.ipvs.exclude_cidrs[..], facts.pod_cidrs];
    if blocks.is_empty() {
        Some(NodePortComplaint::AllAddresses)
    } else if lists.into_iter().any(is_dual_stack) && !has(primary.other()) {
        Some(NodePortComplaint::OtherFamilyUnrestricted(primary.other()))
    } else if !has(primary) {
        Some(NodePortComplaint::PrimaryFamilyUnrestricted(primary))
    } else {
        None
    }
}

fn is_dual_stack(blocks: &[IpNet]) -> bool {
    IpFamily::BOTH.into_iter().all(|family| blocks.iter().any(|net| IpFamily::of_net(net) == family))
}

/// One setting of the wrong family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyComplaint {
    /// The setting, as in the file.
    pub setting: &'static str,
    /// Whether the proxy cannot work so.
    pub fatal: bool,
}

/// Everything of the wrong family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyVerdict {
    /// The family everything should have something of.
    pub primary: IpFamily,
    /// The complaints.
    pub complaints: Vec<FamilyComplaint>,
}

impl FamilyVerdict {
    /// Whether the start must fail.
    pub fn is_fatal(&self) -> bool {
        self.complaints.iter().any(|complaint| complaint.fatal)
    }

    /// What to tell the operator.
    pub fn text(&self) -> String {
        let settings: Vec<&str> = self.complaints.iter().map(|complaint| complaint.setting).collect();
        format!(
            "the node's primary family is {}, but there is none of it in: {}",
            self.primary,
            settings.join(", ")
        )
    }
}

/// Looks for settings that have nothing of the primary family.
pub fn check_families(settings: &Settings, facts: &SanityFacts<'_>, families: Families) -> FamilyVerdict {
    let primary = families.primary;
    let single = families.stack == Stack::Single;
    let wrong =
        |blocks: &[IpNet]| !blocks.is_empty() && blocks.iter().all(|net| IpFamily::of_net(net) != primary);
    let wrong_ip = |ip: IpAddr| IpFamily::of(ip) != primary;
    let mut complaints = Vec::new();
    let mut complain = |setting, fatal| complaints.push(FamilyComplaint { setting, fatal });
    if wrong(&settings.cluster_cidrs) {
        complain("clusterCIDR", single && settings.detect_local == DetectLocal::ClusterCidr);
    }
    if wrong(facts.pod_cidrs) {
        complain("the node's podCIDRs", settings.detect_local == DetectLocal::NodeCidr);
    }
    if matches!(settings.source_vip, SourceVip::Address(ip) if wrong_ip(ip)) {
        complain("winkernel.sourceVip", false);
    }
    if single && wrong(&settings.ipvs.exclude_cidrs) {
        complain("ipvs.excludeCIDRs", false);
    }
    let specific_and_wrong = |ip: IpAddr| !ip.is_unspecified() && wrong_ip(ip);
    if single && matches!(settings.healthz, Healthz::At(address) if specific_and_wrong(address.ip())) {
        complain("healthzBindAddress", false);
    }
    if single && specific_and_wrong(settings.metrics.ip()) {
        complain("metricsBindAddress", false);
    }
    FamilyVerdict { primary, complaints }
}

#[cfg(test)]
mod tests;
