//! How packets from this node's pods are distinguished from others.

use ferrule_plan::LocalDetection;
use ipnet::IpNet;

use crate::settings::DetectLocal;

/// The configured way to detect local pods, as the planner wants it.
pub fn local_detection(mode: &DetectLocal, cluster_cidrs: &[IpNet]) -> LocalDetection {
    match mode {
        DetectLocal::ClusterCidr => LocalDetection::ClusterCidrs(cluster_cidrs.to_vec()),
        DetectLocal::NodeCidr => LocalDetection::NodeCidrs,
        DetectLocal::BridgeInterface(name) => LocalDetection::BridgeInterface(name.clone()),
        DetectLocal::InterfaceNamePrefix(prefix) => LocalDetection::InterfaceNamePrefix(prefix.clone()),
    }
}

#[cfg(test)]
mod tests;
