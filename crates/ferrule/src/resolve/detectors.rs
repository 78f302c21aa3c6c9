//! How packets from this node's pods are told from others, per family.

use ferrule_model::{IpFamily, PerFamily};
use ipnet::IpNet;

use crate::settings::DetectLocal;

/// One way to recognise local traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalDetector {
    /// The source address is inside the block.
    Source(IpNet),
    /// The packet came in through this interface.
    Interface(String),
    /// The packet came in through an interface whose name begins so.
    InterfacePrefix(String),
}

/// The detectors; a family without one has no rules that depend on locality.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detectors {
    /// Per family.
    pub by_family: PerFamily<LocalDetector>,
    /// Whether the primary family ended up without one, which deserves a line in the log.
    pub primary_lacks_one: bool,
}

/// Picks the detectors; blocks of the cluster or of this node's pods, whichever the mode asks for.
pub fn local_detectors(
    mode: &DetectLocal,
    cluster_cidrs: &[IpNet],
    pod_cidrs: &[IpNet],
    primary: IpFamily,
) -> Detectors {
    let by_family = match mode {
        DetectLocal::ClusterCidr => first_blocks(cluster_cidrs),
        DetectLocal::NodeCidr => first_blocks(pod_cidrs),
        DetectLocal::BridgeInterface(name) => both(&LocalDetector::Interface(name.clone())),
        DetectLocal::InterfaceNamePrefix(prefix) => both(&LocalDetector::InterfacePrefix(prefix.clone())),
    };
    Detectors { primary_lacks_one: by_family.get(primary).is_none(), by_family }
}

fn first_blocks(blocks: &[IpNet]) -> PerFamily<LocalDetector> {
    let first = |family| {
        blocks
            .iter()
            .find(|net| IpFamily::of_net(net) == family)
            .map(|net| LocalDetector::Source(net.trunc()))
    };
    PerFamily { v4: first(IpFamily::V4), v6: first(IpFamily::V6) }
}

fn both(detector: &LocalDetector) -> PerFamily<LocalDetector> {
    PerFamily { v4: Some(detector.clone()), v6: Some(detector.clone()) }
}

#[cfg(test)]
mod tests;
