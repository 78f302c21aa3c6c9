//! Which objects the files of a folder hold together, which of them count, and what of that is new.
//!
//! Remembers names and digests only: the objects themselves are the model's.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fmt;
use std::sync::Arc;

use ferrule_model::{Change, NodeName, ObjectKind};

use super::manifest::{Manifest, Object};
use crate::api::ObjectMeta;
use crate::convert;

/// The name of an object, of whatever kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ObjectKey {
    kind: ObjectKind,
    /// Empty where there is none.
    namespace: String,
    name: String,
}

/// An object in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub key: Arc<ObjectKey>,
    pub digest: u64,
    /// Its place among the file's objects.
    pub at: usize,
    pub line: usize,
    pub file: Arc<OsStr>,
}

/// An object that does not count, since another of that name does.
#[derive(Debug)]
pub(super) struct Duplicate {
    pub held: Held,
    /// The file of the other.
    pub counts: Arc<OsStr>,
}

/// What a folder says that it did not say before.
#[derive(Debug, Default)]
pub(super) struct News {
    pub put: Vec<Held>,
    pub gone: BTreeSet<Arc<ObjectKey>>,
    pub duplicates: Vec<Duplicate>,
}

/// The objects that count, as they were last told.
#[derive(Debug, Default)]
pub(super) struct Objects {
    counting: HashMap<Arc<ObjectKey>, u64>,
    /// The duplicates that were told.
    told: HashSet<(Arc<ObjectKey>, Arc<OsStr>)>,
}

impl Objects {
    /// What a file holds of use; Nodes other than the own one are of none.
    pub(super) fn held_by(&self, file: &OsStr, manifests: &[Manifest], own_node: &NodeName) -> Vec<Held> {
        let file: Arc<OsStr> = file.into();
        let held = manifests.iter().enumerate().filter_map(|(at, manifest)| {
            let key = ObjectKey::of(&manifest.object, own_node)?;
            // The same name is kept once, however often files are read again.
            let key =
                self.counting.get_key_value(&key).map_or_else(|| Arc::new(key), |(known, _)| known.clone());
            Some(Held { key, digest: manifest.digest, at, line: manifest.line, file: file.clone() })
        });
        held.collect()
    }

    /// Holds all objects, in the order in which they count, against those last told.
    pub(super) fn news<'a>(&mut self, all: impl Iterator<Item = &'a Held>) -> News {
        let mut news = News::default();
        let mut now: HashMap<&ObjectKey, &Held> = HashMap::with_capacity(self.counting.len());
        let mut still = HashSet::new();
        for held in all {
            if let Some(first) = now.get(&*held.key) {
                let name = (held.key.clone(), held.file.clone());
                if !self.told.contains(&name) {
                    news.duplicates.push(Duplicate { held: held.clone(), counts: first.file.clone() });
                }
                still.insert(name);
                continue;
            }
            now.insert(&held.key, held);
            if self.counting.get(&held.key) != Some(&held.digest) {
                news.put.push(held.clone());
            }
        }
        self.told = still;
        news.gone = self.counting.keys().filter(|key| !now.contains_key(&***key)).cloned().collect();
        news
    }

    /// How many Services count.
    pub(super) fn services(&self) -> usize {
        self.counting.keys().filter(|key| key.kind == ObjectKind::Service).count()
    }

    /// Remembers that an object was told.
    pub(super) fn count(&mut self, held: Held) {
        self.counting.insert(held.key, held.digest);
    }

    /// Forgets an object and says what that means.
    pub(super) fn forget(&mut self, key: &ObjectKey) -> Option<Change> {
        self.counting.remove(key);
        let metadata =
            ObjectMeta { name: key.name.clone(), namespace: key.namespace.clone(), ..ObjectMeta::default() };
        match key.kind {
            ObjectKind::Service => convert::service_deleted(&metadata).change,
            ObjectKind::EndpointSlice => convert::endpoint_slice_deleted(&metadata).change,
            ObjectKind::Node => Some(Change::Node(None)),
            ObjectKind::ServiceCidr => convert::service_cidr_deleted(&metadata).change,
        }
    }
}

impl ObjectKey {
    pub(super) fn kind(&self) -> ObjectKind {
        self.kind
    }

    fn of(object: &Object, own_node: &NodeName) -> Option<Self> {
        let (kind, metadata) = kind_and_metadata(object)?;
        let is_foreign = kind == ObjectKind::Node && metadata.name != own_node.as_str();
        let is_namespaced = matches!(kind, ObjectKind::Service | ObjectKind::EndpointSlice);
        let namespace = if is_namespaced { metadata.namespace.clone() } else { String::new() };
        (!is_foreign).then(|| Self { kind, namespace, name: metadata.name.clone() })
    }
}

fn kind_and_metadata(object: &Object) -> Option<(ObjectKind, &ObjectMeta)> {
    match object {
        Object::Service(object) => Some((ObjectKind::Service, &object.metadata)),
        Object::EndpointSlice(object) => Some((ObjectKind::EndpointSlice, &object.metadata)),
        Object::Node(object) => Some((ObjectKind::Node, &object.metadata)),
        Object::ServiceCidr(object) => Some((ObjectKind::ServiceCidr, &object.metadata)),
        Object::Other(_) => None,
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        write!(f, "{} {}{slash}{}", self.kind, self.namespace.escape_debug(), self.name.escape_debug())
    }
}
