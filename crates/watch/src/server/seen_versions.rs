//! Names and versions of the objects reported so far, so that a new list can be reduced to what changed.

use std::collections::HashMap;

use ferrule_model::{Change, ServiceName, SliceName};

use super::resource::DecodedObject;
use crate::ChangeBatch;

/// The objects of one kind that were reported. Holds no objects, only their versions.
#[derive(Debug, Default)]
pub(super) struct SeenVersions {
    versions: HashMap<Name, u64>,
}

/// A list that is still arriving.
#[derive(Debug, Default)]
pub(super) struct PendingList {
    versions: HashMap<Name, u64>,
    unreported: ChangeBatch,
}

/// Number of objects seen before a complete list, and of those it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub known: usize,
    pub removed: usize,
}

/// The key of an object; shares its text with the change it came from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Name {
    Service(ServiceName),
    Slice(SliceName),
    Endpoints(ServiceName),
    ServiceCidr(Box<str>),
    Node,
}

impl SeenVersions {
    pub(super) fn put(&mut self, object: DecodedObject, batch: &mut ChangeBatch) {
        if let Some(change) = object.converted.change {
            self.versions.insert(Name::from_change(&change), object.version);
            batch.changes.push(change);
        }
        batch.diagnostics.extend(object.converted.diagnostics);
    }

    pub(super) fn delete(&mut self, change: Change, batch: &mut ChangeBatch) {
        self.versions.remove(&Name::from_change(&change));
        batch.changes.push(change);
    }

    /// Takes what has arrived of a list out of it, to be reported before the rest is there.
    pub(super) fn take_chunk(&mut self, list: &mut PendingList) -> ChangeBatch {
        let batch = std::mem::take(&mut list.unreported);
        for name in batch.changes.iter().map(Name::from_change) {
            if let Some(version) = list.versions.get(&name) {
                self.versions.insert(name, *version);
            }
        }
        batch
    }

    pub(super) fn missing_from(&self, list: &PendingList) -> Missing {
        let is_removed = |name: &&Name| !list.versions.contains_key(*name);
        Missing { known: self.versions.len(), removed: self.versions.keys().filter(is_removed).count() }
    }

    /// Replaces everything by a complete list; returns what differs.
    pub(super) fn replace(&mut self, list: PendingList) -> ChangeBatch {
        let before = std::mem::replace(&mut self.versions, list.versions);
        let removed = before.into_keys().filter(|name| !self.versions.contains_key(name));
        let mut changes: Vec<Change> = removed.map(Name::into_deletion).collect();
        changes.extend(list.unreported.changes);
        ChangeBatch { changes, diagnostics: list.unreported.diagnostics }
    }
}

impl PendingList {
    /// Number of its objects that are still to be reported.
    pub(super) fn unreported(&self) -> usize {
        self.unreported.changes.len()
    }

    /// Adds an object. It is not reported again if it was already reported in the same version.
    pub(super) fn put(&mut self, seen: &SeenVersions, object: DecodedObject) {
        let Some(change) = object.converted.change else {
            self.unreported.diagnostics.extend(object.converted.diagnostics);
            return;
        };
        let name = Name::from_change(&change);
        let is_reported = object.version != 0 && seen.versions.get(&name) == Some(&object.version);
        if self.versions.insert(name.clone(), object.version).is_some() {
            // The object changed while the list was arriving: only its last state is reported.
            self.unreported.changes.retain(|other| Name::from_change(other) != name);
        }
        if !is_reported {
            self.unreported.changes.push(change);
            self.unreported.diagnostics.extend(object.converted.diagnostics);
        }
    }

    /// Keeps an object that the list holds but that cannot be decoded in its last known state.
    pub(super) fn keep(&mut self, seen: &SeenVersions, change: &Change) {
        let name = Name::from_change(change);
        if let Some(version) = seen.versions.get(&name) {
            self.versions.insert(name, *version);
        }
    }

    /// Drops an object that was deleted while the list was arriving.
    pub(super) fn delete(&mut self, change: &Change) {
        let name = Name::from_change(change);
        self.versions.remove(&name);
        self.unreported.changes.retain(|other| Name::from_change(other) != name);
    }
}

impl Name {
    fn from_change(change: &Change) -> Self {
        match change {
            Change::Service(name, _) => Self::Service(name.clone()),
            Change::Slice(name, ..) => Self::Slice(name.clone()),
            Change::Endpoints(name, ..) => Self::Endpoints(name.clone()),
            Change::ServiceCidr(name, _) => Self::ServiceCidr(name.as_str().into()),
            Change::Node(_) => Self::Node,
        }
    }

    fn into_deletion(self) -> Change {
        match self {
            Self::Service(name) => Change::Service(name, None),
            Self::Slice(name) => Change::Slice(name, None, None),
            Self::Endpoints(name) => Change::Endpoints(name, Vec::new(), None),
            Self::ServiceCidr(name) => Change::ServiceCidr(name.into(), None),
            Self::Node => Change::Node(None),
        }
    }
}

#[cfg(test)]
mod tests;
