//! What a mode can serve on this host, and whether the settings fit the node.

use ferrule_backends::Backend;
use ferrule_kernel::sysctl;
use ferrule_model::{IpFamily, NodeIps};
use tracing::warn;

use super::notes;
use super::start::StartError;
use ferrule_config::resolve::{
    Families, FamilySupport, NodeAddresses, NodeContext, check_families, check_node_ports, families,
    node_ports,
};
use ferrule_config::settings::Settings;
use ferrule_model::with_causes;

/// The families that can be served here. The node's primary family must be among them.
pub(super) fn probe(
    backend: &mut dyn Backend,
    settings: &Settings,
    node: &NodeAddresses,
) -> Result<Families, StartError> {
    let primary = NodeIps::resolve(&node.host_ips, Some(settings.bind_address)).primary;
    let mut probe = backend.probe();
    notes::log_all(&probe.notes);
    if let Some(Err(error)) = probe.families.slot(primary).take_if(|result| result.is_err()) {
        return Err(error.into());
    }
    let works = |family| matches!(probe.families.get(family), Some(Ok(())));
    let families = families(&family_support(works(IpFamily::V4), works(IpFamily::V6)), primary)?;
    if let Some(Err(error)) = probe.families.get(primary.other()) {
        warn!(family = %primary.other(), err = with_causes(error), "Family cannot be served");
    }
    Ok(families)
}

/// Complains about settings that do not fit this node. With some of them it is no use to go on.
pub(super) fn check(settings: &Settings, node: &NodeAddresses, families: Families) -> Result<(), StartError> {
    let ips = NodeIps::resolve(&node.host_ips, Some(settings.bind_address));
    let blocks = node_ports(&settings.node_port_addresses, &ips).blocks;
    let context =
        NodeContext { pod_cidrs: &node.pod_cidrs, node_port_blocks: &blocks, primary: families.primary };
    if let Some(complaint) = check_node_ports(settings, &context) {
        warn!(problem = complaint.text(), "Kube-proxy configuration may be incomplete or incorrect");
    }
    let mismatch = check_families(settings, &context, families);
    if mismatch.is_fatal() {
        return Err(StartError::Unfit(mismatch.text()));
    }
    if !mismatch.settings.is_empty() {
        warn!(problem = mismatch.text(), "Kube-proxy configuration may be incomplete or incorrect");
    }
    Ok(())
}

fn family_support(v4_works: bool, v6_works: bool) -> FamilySupport {
    FamilySupport {
        v4_works,
        v6_works,
        has_if_inet6: std::path::Path::new("/proc/net/if_inet6").exists(),
        disable_ipv6: sysctl::read("net/ipv6/conf/all/disable_ipv6").unwrap_or_default(),
    }
}
