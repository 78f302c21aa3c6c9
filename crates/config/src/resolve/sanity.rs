//! Settings that are valid one by one and do not fit together or not this node: what to warn about, and what is fatal.
//!
//! "Wrong family" means a list that is not empty and has nothing of the primary family.

use std::net::IpAddr;

use ferrule_model::IpFamily;
use ipnet::IpNet;

use super::families::{Families, Stack};
use crate::settings::{DetectLocal, Healthz, Settings, SourceVip};

/// What the checks compare the settings with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeContext<'a> {
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
    /// For the log.
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

/// Checks the NodePort addresses.
pub fn check_node_ports(settings: &Settings, node: &NodeContext<'_>) -> Option<NodePortComplaint> {
    let primary = node.primary;
    let blocks = node.node_port_blocks;
    let has = |family| blocks.iter().any(|net| IpFamily::of_net(net) == family);
    let lists = [&settings.cluster_cidrs[..], blocks, &settings.ipvs.exclude_cidrs[..], node.pod_cidrs];
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
pub struct MismatchedSetting {
    /// Its name, as in the file.
    pub name: &'static str,
    /// Whether the proxy cannot work so.
    pub fatal: bool,
}

/// All settings of the wrong family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyMismatch {
    /// The family everything should have something of.
    pub primary: IpFamily,
    /// The settings that have nothing of it.
    pub settings: Vec<MismatchedSetting>,
}

impl FamilyMismatch {
    /// Whether the proxy must not start.
    pub fn is_fatal(&self) -> bool {
        self.settings.iter().any(|setting| setting.fatal)
    }

    /// For the log.
    pub fn text(&self) -> String {
        let settings: Vec<&str> = self.settings.iter().map(|setting| setting.name).collect();
        format!(
            "the node's primary family is {}, but there is none of it in: {}",
            self.primary,
            settings.join(", ")
        )
    }
}

/// Finds settings that have nothing of the primary family.
pub fn check_families(settings: &Settings, node: &NodeContext<'_>, families: Families) -> FamilyMismatch {
    let primary = families.primary;
    let single = families.stack == Stack::Single;
    let wrong =
        |blocks: &[IpNet]| !blocks.is_empty() && blocks.iter().all(|net| IpFamily::of_net(net) != primary);
    let wrong_ip = |ip: IpAddr| IpFamily::of(ip) != primary;
    let mut mismatched = Vec::new();
    let mut report = |name, fatal| mismatched.push(MismatchedSetting { name, fatal });
    if wrong(&settings.cluster_cidrs) {
        report("clusterCIDR", single && settings.detect_local == DetectLocal::ClusterCidr);
    }
    if wrong(node.pod_cidrs) {
        report("the node's podCIDRs", settings.detect_local == DetectLocal::NodeCidr);
    }
    if matches!(settings.source_vip, SourceVip::Address(ip) if wrong_ip(ip)) {
        report("winkernel.sourceVip", false);
    }
    if single && wrong(&settings.ipvs.exclude_cidrs) {
        report("ipvs.excludeCIDRs", false);
    }
    let specific_and_wrong = |ip: IpAddr| !ip.is_unspecified() && wrong_ip(ip);
    if single && matches!(settings.healthz, Healthz::At(address) if specific_and_wrong(address.ip())) {
        report("healthzBindAddress", false);
    }
    if single && specific_and_wrong(settings.metrics.ip()) {
        report("metricsBindAddress", false);
    }
    FamilyMismatch { primary, settings: mismatched }
}

#[cfg(test)]
mod tests;
