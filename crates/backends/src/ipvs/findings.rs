//! What a read of the kernel found to differ, as one line of the log can say it.

use std::collections::BTreeSet;

use ferrule_kernel::ipset::{SetEntry, SetSpec};
use ferrule_kernel::ipvs::{IpvsChange, VirtualServerId};

use super::edit::Edit;
use super::kernel::{INTERFACE, Missing};
use super::sets::{AddressSet, SETS};

/// So many kinds of differences are named.
const MAX_KINDS: usize = 4;

/// Differences, one of each kind by its name, the others by their number.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<(&'static str, Vec<String>)>);

impl Findings {
    pub(super) fn add(&mut self, what: &'static str, names: impl IntoIterator<Item = String>) {
        let names: Vec<String> = names.into_iter().collect();
        if !names.is_empty() {
            self.0.push((what, names));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many kinds of differences there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn append(&mut self, mut others: Self) {
        self.0.append(&mut others.0);
    }

    pub(super) fn missing(&mut self, missing: &Missing, specs: &[SetSpec; SETS]) {
        self.add("interface removed", missing.link.then(|| INTERFACE.to_owned()));
        self.add("set removed", missing.sets.iter().map(|set| specs[set.index()].name.to_string()));
    }

    pub(super) fn edit(&mut self, edit: &Edit, specs: &[SetSpec; SETS]) {
        let entry = |(set, entry): &(AddressSet, SetEntry)| format!("{entry} of {}", specs[set.index()].name);
        let new: BTreeSet<VirtualServerId> = edit.services.iter().filter_map(added).collect();
        let servers = |is_wanted: &dyn Fn(&IpvsChange) -> bool| -> Vec<String> {
            edit.services.iter().filter(|change| is_wanted(change)).filter_map(real_server).collect()
        };
        self.add("virtual server removed", new.iter().map(ToString::to_string));
        self.add("virtual server changed", edit.services.iter().filter_map(changed));
        let is_missing = |change: &IpvsChange| match change {
            IpvsChange::AddServer { service, .. } => !new.contains(service),
            _ => false,
        };
        self.add("real server removed", servers(&is_missing));
        self.add("real server changed", servers(&|change| matches!(change, IpvsChange::SetServer { .. })));
        self.add("real server added", edit.retire.iter().map(|(id, server)| format!("{server} of {id}")));
        self.add("virtual server added", edit.delete_services.iter().map(ToString::to_string));
        self.add("entry removed", edit.add_entries.iter().map(entry));
        let too_many = edit.delete_admitting.iter().chain(&edit.delete_entries);
        self.add("entry added", too_many.map(entry));
        self.add("address removed", edit.bind.iter().map(|address| format!("{address} of {INTERFACE}")));
        self.add("address added", edit.unbind.iter().map(|address| format!("{address} of {INTERFACE}")));
    }

    /// `virtual server removed: 10.96.0.1:80/TCP and 3 more; …`; none if nothing differed.
    pub(super) fn into_text(self) -> Option<String> {
        let rest = self.0.len().saturating_sub(MAX_KINDS);
        let mut texts: Vec<String> = self.0.iter().take(MAX_KINDS).map(one_kind).collect();
        texts.extend((rest > 0).then(|| format!("and {rest} more kinds of changes")));
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

fn one_kind((what, names): &(&'static str, Vec<String>)) -> String {
    match names.as_slice() {
        [] => (*what).to_owned(),
        [name] => format!("{what}: {name}"),
        [name, rest @ ..] => format!("{what}: {name} and {} more", rest.len()),
    }
}

fn added(change: &IpvsChange) -> Option<VirtualServerId> {
    match change {
        IpvsChange::AddService(server) => Some(server.id),
        _ => None,
    }
}

fn changed(change: &IpvsChange) -> Option<String> {
    match change {
        IpvsChange::SetService(server) => Some(server.id.to_string()),
        _ => None,
    }
}

fn real_server(change: &IpvsChange) -> Option<String> {
    match change {
        IpvsChange::AddServer { service, server } | IpvsChange::SetServer { service, server } => {
            Some(format!("{} of {service}", server.address))
        }
        _ => None,
    }
}
