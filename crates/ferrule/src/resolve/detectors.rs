//! How packets from this node's pods are told from others, per family.

use ferrule_model::{IpFamily, PerFamily};
use ferrule_plan::{LocalDetection, LocalPods};
use ipnet::IpNet;

use crate::settings::DetectLocal;

/// The detectors; a family without one has no rules that depend on locality.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detectors {
    /// Per family.
    pub by_family: PerFamily<LocalPods>,
    /// Whether the primary family ended up without one, which deserves a line in the log.
    pub primary_lacks_one: bool,
}

/// The configured way to tell local pods, as the planner wants it.
pub fn local_detection(mode: &DetectLocal, cluster_cidrs: &[IpNet]) -> LocalDetection {
    match mode {
        DetectLocal::ClusterCidr => LocalDetection::ClusterCidrs(cluster_cidrs.to_vec()),
        DetectLocal::NodeCidr => LocalDetection::NodeCidrs,
        DetectLocal::BridgeInterface(name) => LocalDetection::BridgeInterface(name.clone()),
        DetectLocal::InterfaceNamePrefix(prefix) => LocalDetection::InterfaceNamePrefix(prefix.clone()),
    }
}

/// Picks the detectors; blocks of the cluster or of this node's pods, whichever the mode asks for.
pub fn local_detectors(
    mode: &DetectLocal,
    cluster_cidrs: &[IpNet],
    pod_cidrs: &[IpNet],
    primary: IpFamily,
) -> Detectors {
    let detection = local_detection(mode, cluster_cidrs);
    let of_family = |family| detection.local_pods(pod_cidrs, family);
    let by_family = PerFamily { v4: of_family(IpFamily::V4), v6: of_family(IpFamily::V6) };
    Detectors { primary_lacks_one: by_family.get(primary).is_none(), by_family }
}

#[cfg(test)]
mod tests;
