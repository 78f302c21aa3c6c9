//! The objects of one kind that were told, by name and version, so that a list can be held against them.

use std::collections::HashMap;

use ferrule_model::{Change, ServiceName, SliceName};

use super::Batch;
use super::resource::Object;

/// What was told.
#[derive(Debug, Default)]
pub(super) struct Known {
    versions: HashMap<Name, u64>,
}

/// A list that is coming in.
#[derive(Debug, Default)]
pub(super) struct Listing {
    versions: HashMap<Name, u64>,
    batch: Batch,
}

/// The name of an object; shared with the change it came from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Name {
    Service(ServiceName),
    Slice(SliceName),
    ServiceCidr(Box<str>),
    Node,
}

impl Known {
    /// An object was put.
    pub(super) fn put(&mut self, object: Object, batch: &mut Batch) {
        if let Some(change) = object.converted.change {
            self.versions.insert(Name::of(&change), object.version);
            batch.changes.push(change);
        }
        batch.diagnostics.extend(object.converted.diagnostics);
    }

    /// An object was deleted.
    pub(super) fn delete(&mut self, change: Change, batch: &mut Batch) {
        self.versions.remove(&Name::of(&change));
        batch.changes.push(change);
    }

    /// What came of a list so far, to be told though the rest is not there.
    pub(super) fn put_so_far(&mut self, list: &mut Listing) -> Batch {
        let batch = std::mem::take(&mut list.batch);
        for name in batch.changes.iter().map(Name::of) {
            if let Some(version) = list.versions.get(&name) {
                self.versions.insert(name, *version);
            }
        }
        batch
    }

    /// How many objects are known, and how many of them a complete list lacks.
    pub(super) fn lacking(&self, list: &Listing) -> (usize, usize) {
        let is_gone = |name: &&Name| !list.versions.contains_key(*name);
        (self.versions.len(), self.versions.keys().filter(is_gone).count())
    }

    /// Puts a complete list in the place of what was known; what differs is to be told.
    pub(super) fn replace(&mut self, list: Listing) -> Batch {
        let before = std::mem::replace(&mut self.versions, list.versions);
        let gone = before.into_keys().filter(|name| !self.versions.contains_key(name));
        let mut changes: Vec<Change> = gone.map(Name::gone).collect();
        changes.extend(list.batch.changes);
        Batch { changes, diagnostics: list.batch.diagnostics }
    }
}

impl Listing {
    /// How many of its objects are to be told.
    pub(super) fn untold(&self) -> usize {
        self.batch.changes.len()
    }

    /// An object of the list. One that was told in this very version is not told again.
    pub(super) fn put(&mut self, known: &Known, object: Object) {
        let Some(change) = object.converted.change else {
            self.batch.diagnostics.extend(object.converted.diagnostics);
            return;
        };
        let name = Name::of(&change);
        let told = object.version != 0 && known.versions.get(&name) == Some(&object.version);
        if self.versions.insert(name.clone(), object.version).is_some() {
            // It changed while the list came in: what it was first is not worth telling.
            self.batch.changes.retain(|other| Name::of(other) != name);
        }
        if !told {
            self.batch.changes.push(change);
            self.batch.diagnostics.extend(object.converted.diagnostics);
        }
    }

    /// An object of the list that cannot be read: it stays as it was, if it was there.
    pub(super) fn keep(&mut self, known: &Known, change: &Change) {
        let name = Name::of(change);
        if let Some(version) = known.versions.get(&name) {
            self.versions.insert(name, *version);
        }
    }

    /// An object that was deleted while the list came in.
    pub(super) fn delete(&mut self, change: &Change) {
        let name = Name::of(change);
        self.versions.remove(&name);
        self.batch.changes.retain(|other| Name::of(other) != name);
    }
}

impl Name {
    fn of(change: &Change) -> Self {
        match change {
            Change::Service(name, _) => Self::Service(name.clone()),
            Change::Slice(name, ..) => Self::Slice(name.clone()),
            Change::ServiceCidr(name, _) => Self::ServiceCidr(name.as_str().into()),
            Change::Node(_) => Self::Node,
        }
    }

    fn gone(self) -> Change {
        match self {
            Self::Service(name) => Change::Service(name, None),
            Self::Slice(name) => Change::Slice(name, None, None),
            Self::ServiceCidr(name) => Change::ServiceCidr(name.into(), None),
            Self::Node => Change::Node(None),
        }
    }
}

#[cfg(test)]
mod tests;
