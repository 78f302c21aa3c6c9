//! What a proxy would know of a folder of manifests, without one that runs.
//!
//! Settings come from the flags of the command that asks. The kernel is read only if that is wanted: the folder may be of another
//! node.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ferrule_backends::Backend;
use ferrule_config::resolve::{NodeAddresses, resolve_node_name};
use ferrule_config::settings::Settings;
use ferrule_kernel::interfaces;
use ferrule_model::{Cluster, IpFamily, PerFamily, with_causes};
use ferrule_plan::NodePlan;

use super::inspect::Snapshot;
use super::start::host_name;
use super::view::{Site, mode_options, node_view};
use crate::questions::{QuestionError, diff};

/// Whether the folder is about this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelUse {
    /// The addresses are those of the Node object, and the kernel is not read.
    None,
    /// The addresses are those of this host, and its kernel can be compared.
    ThisHost,
}

/// Plans what a folder says. Writes nothing anywhere.
pub fn snapshot(
    settings: &Settings,
    mut backend: Box<dyn Backend>,
    folder: &Path,
    kernel: KernelUse,
) -> Result<Snapshot, QuestionError> {
    let failed = |error: &dyn std::error::Error| QuestionError(with_causes(error));
    let name = resolve_node_name(&settings.node_name, &host_name()).map_err(|error| failed(&error))?;
    let cluster = diff::cluster_of_folder(folder, &name, &Cluster::default())?;
    let node = cluster.node().map(NodeAddresses::from_node).unwrap_or_default();
    let families = match kernel {
        KernelUse::None => IpFamily::BOTH.to_vec(),
        KernelUse::ThisHost => usable(&mut *backend)?,
    };
    let interface_addresses = match kernel {
        KernelUse::None => node.host_ips.iter().copied().collect(),
        KernelUse::ThisHost => {
            let found = interfaces::node_addresses().map_err(|error| failed(&error))?;
            found.into_iter().map(|found| found.address).collect()
        }
    };
    let options = mode_options(settings, &node.host_ips);
    let view = node_view(settings, &options, &*backend, &Site { name, families, interface_addresses });
    let (plan, diagnostics) = ferrule_plan::plan(&cluster, &view);
    Ok(Snapshot {
        mode: settings.mode,
        cluster: Arc::new(cluster),
        plan: Arc::<NodePlan>::new(plan),
        view: Arc::new(view),
        families: PerFamily::default(),
        unreachable: BTreeMap::new(),
        has_pending_changes: false,
        diagnostics,
        is_shadow: false,
        reader: backend.reader(&options).filter(|_| kernel == KernelUse::ThisHost),
    })
}

/// The families that the mode can serve here.
fn usable(backend: &mut dyn Backend) -> Result<Vec<IpFamily>, QuestionError> {
    let probe = backend.probe();
    let works = |family: &IpFamily| matches!(probe.families.get(*family), Some(Ok(())));
    let usable: Vec<IpFamily> = IpFamily::BOTH.into_iter().filter(works).collect();
    if usable.is_empty() {
        let why = IpFamily::BOTH.into_iter().find_map(|family| probe.families.get(family)?.as_ref().err());
        let why = why.map_or_else(|| "no family works".to_owned(), |error| with_causes(error));
        return Err(QuestionError(format!("the kernel cannot be read: {why}")));
    }
    Ok(usable)
}
