//! What a sync would write, in the words of `ipvsadm`, `ipset`, `ip` and `iptables-restore`.

use ferrule_kernel::ipset::{SetEntry, SetSpec};
use ferrule_kernel::ipvs::{IpvsChange, VirtualServerId};

use super::edit::Edit;
use super::kernel::{INTERFACE, Missing};
use super::sets::{AddressSet, SETS};
use crate::Patch;
use crate::static_rules::Correction;

/// The lines, in the order in which a sync would write.
pub(super) fn patch(missing: &Missing, specs: &[SetSpec; SETS], edit: &Edit, rules: &Correction) -> Patch {
    let mut lines = Vec::new();
    for set in &missing.sets {
        let spec = &specs[set.index()];
        lines.push(format!("ipset create {} {}", spec.name, spec.set_type.name()));
    }
    if missing.link {
        lines.push(format!("ip link add {INTERFACE} type dummy"));
    }
    lines.extend(rules.text.as_str().lines().map(str::to_owned));
    let entry = |verb: &str, (set, entry): &(AddressSet, SetEntry)| {
        format!("ipset {verb} {} {entry}", specs[set.index()].name)
    };
    lines.extend(edit.add_entries.iter().map(|change| entry("add", change)));
    lines.extend(edit.services.iter().map(change));
    lines.extend(
        edit.retire.iter().map(|(service, server)| format!("ipvsadm -d {} -r {server}", flag(service))),
    );
    lines.extend(edit.bind.iter().map(|address| format!("ip address add {address} dev {INTERFACE}")));
    lines.extend(edit.unbind.iter().map(|address| format!("ip address del {address} dev {INTERFACE}")));
    lines.extend(edit.delete_admitting.iter().map(|change| entry("del", change)));
    lines.extend(edit.delete_services.iter().map(|id| format!("ipvsadm -D {}", flag(id))));
    lines.extend(edit.delete_entries.iter().map(|change| entry("del", change)));
    Patch { lines }
}

fn change(change: &IpvsChange) -> String {
    match change {
        IpvsChange::AddService(server) => format!("ipvsadm -A {} -s {}", flag(&server.id), server.scheduler),
        IpvsChange::SetService(server) => format!("ipvsadm -E {} -s {}", flag(&server.id), server.scheduler),
        IpvsChange::DeleteService(id) => format!("ipvsadm -D {}", flag(id)),
        IpvsChange::AddServer { service, server } => {
            format!("ipvsadm -a {} -r {} -m -w {}", flag(service), server.address, server.weight)
        }
        IpvsChange::SetServer { service, server } => {
            format!("ipvsadm -e {} -r {} -m -w {}", flag(service), server.address, server.weight)
        }
        IpvsChange::DeleteServer { service, server } => format!("ipvsadm -d {} -r {server}", flag(service)),
    }
}

/// A virtual server as `ipvsadm` is given it: `-t 10.96.0.1:80`.
fn flag(id: &VirtualServerId) -> String {
    let option = match id.protocol {
        17 => "-u",
        132 => "--sctp-service",
        _ => "-t",
    };
    format!("{option} {}", std::net::SocketAddr::new(id.address, id.port))
}
