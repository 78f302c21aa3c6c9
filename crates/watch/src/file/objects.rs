//! The objects of all files of a directory: which of them are in effect, and what changed.
//!
//! Keeps names and digests only. The objects themselves are in the model.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fmt;
use std::sync::Arc;

use ferrule_model::{Change, NodeName, ObjectKind};

use super::both_apis::{ReadyEndpoints, SlicedServices};
use super::manifest::{Manifest, Object};
use crate::api::ObjectMeta;
use crate::convert;

/// Kind and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ObjectKey {
    kind: ObjectKind,
    /// Empty for objects without a namespace.
    namespace: String,
    name: String,
}

/// An object in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileObject {
    pub key: Arc<ObjectKey>,
    pub digest: u64,
    /// Position in the file, counted in objects.
    pub index: usize,
    pub line: usize,
    pub file: Arc<OsStr>,
    /// Of EndpointSlices and Endpoints.
    pub ready: Option<Box<ReadyEndpoints>>,
}

/// An object that is ignored because an earlier one has the same name.
#[derive(Debug)]
pub(super) struct Duplicate {
    pub object: FileObject,
    /// The file of the one that is used.
    pub effective_in: Arc<OsStr>,
}

/// The difference between the files and what is in effect.
#[derive(Debug, Default)]
pub(super) struct ObjectDiff {
    pub put: Vec<FileObject>,
    pub removed: BTreeSet<Arc<ObjectKey>>,
    pub duplicates: Vec<Duplicate>,
    /// Endpoints that differ from the EndpointSlices of the same Service.
    pub disagreements: Vec<FileObject>,
}

/// The objects in effect, with their digests.
#[derive(Debug, Default)]
pub(super) struct Objects {
    effective: HashMap<Arc<ObjectKey>, u64>,
    reported_duplicates: HashSet<(Arc<ObjectKey>, Arc<OsStr>)>,
    /// Endpoints that were reported to differ from EndpointSlices, and still do.
    reported_disagreements: HashSet<Arc<ObjectKey>>,
}

impl Objects {
    /// The objects of a file that a proxy uses. Nodes other than our own are left out.
    pub(super) fn in_file(
        &self,
        file: &OsStr,
        manifests: &[Manifest],
        own_node: &NodeName,
    ) -> Vec<FileObject> {
        let file: Arc<OsStr> = file.into();
        let objects = manifests.iter().enumerate().filter_map(|(index, manifest)| {
            let key = ObjectKey::from_object(&manifest.object, own_node)?;
            // Names are shared, so that rereading a file does not allocate them again.
            let key =
                self.effective.get_key_value(&key).map_or_else(|| Arc::new(key), |(known, _)| known.clone());
            let ready = ReadyEndpoints::of(&manifest.object, own_node).map(Box::new);
            let Manifest { digest, line, .. } = *manifest;
            Some(FileObject { key, digest, index, line, file: file.clone(), ready })
        });
        objects.collect()
    }

    /// Compares all objects, in order of precedence, with those in effect.
    pub(super) fn diff<'a>(&mut self, all: impl Iterator<Item = &'a FileObject>) -> ObjectDiff {
        let mut diff = ObjectDiff::default();
        let mut now: HashMap<&ObjectKey, &FileObject> = HashMap::with_capacity(self.effective.len());
        let mut duplicates = HashSet::new();
        for object in all {
            if let Some(first) = now.get(&*object.key) {
                let name = (object.key.clone(), object.file.clone());
                if !self.reported_duplicates.contains(&name) {
                    let effective_in = first.file.clone();
                    diff.duplicates.push(Duplicate { object: object.clone(), effective_in });
                }
                duplicates.insert(name);
                continue;
            }
            now.insert(&object.key, object);
            if self.effective.get(&object.key) != Some(&object.digest) {
                diff.put.push(object.clone());
            }
        }
        self.reported_duplicates = duplicates;
        self.prefer_slices(&mut now, &mut diff);
        diff.removed = self.effective.keys().filter(|key| !now.contains_key(&***key)).cloned().collect();
        diff
    }

    /// Leaves out the Endpoints of Services that have EndpointSlices.
    fn prefer_slices(&mut self, now: &mut HashMap<&ObjectKey, &FileObject>, diff: &mut ObjectDiff) {
        let mut disagreements = HashSet::new();
        if now.keys().any(|key| key.kind == ObjectKind::Endpoints) {
            let services = SlicedServices::among(now.values().copied());
            now.retain(|key, object| {
                let endpoints = object.ready.as_deref().filter(|_| key.kind == ObjectKind::Endpoints);
                let agree = endpoints.and_then(|endpoints| services.replaces(endpoints));
                if agree == Some(false) {
                    disagreements.insert(object.key.clone());
                    if !self.reported_disagreements.contains(*key) {
                        diff.disagreements.push((*object).clone());
                    }
                }
                agree.is_none()
            });
            diff.put.retain(|object| now.contains_key(&*object.key));
        }
        self.reported_disagreements = disagreements;
    }

    /// Number of Services in effect.
    pub(super) fn services(&self) -> usize {
        self.effective.keys().filter(|key| key.kind == ObjectKind::Service).count()
    }

    pub(super) fn set_effective(&mut self, object: FileObject) {
        self.effective.insert(object.key, object.digest);
    }

    /// Removes an object; returns the change that deletes it.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> Option<Change> {
        self.effective.remove(key);
        let metadata =
            ObjectMeta { name: key.name.clone(), namespace: key.namespace.clone(), ..ObjectMeta::default() };
        match key.kind {
            ObjectKind::Service => convert::service_deleted(&metadata).change,
            ObjectKind::EndpointSlice => convert::endpoint_slice_deleted(&metadata).change,
            ObjectKind::Endpoints => convert::endpoints_deleted(&metadata).change,
            ObjectKind::Node => Some(Change::Node(None)),
            ObjectKind::ServiceCidr => convert::service_cidr_deleted(&metadata).change,
        }
    }
}

impl ObjectKey {
    pub(super) fn kind(&self) -> ObjectKind {
        self.kind
    }

    fn from_object(object: &Object, own_node: &NodeName) -> Option<Self> {
        let (kind, metadata) = kind_and_metadata(object)?;
        let is_other_node = kind == ObjectKind::Node && metadata.name != own_node.as_str();
        let is_namespaced = match kind {
            ObjectKind::Service | ObjectKind::EndpointSlice | ObjectKind::Endpoints => true,
            ObjectKind::Node | ObjectKind::ServiceCidr => false,
        };
        let namespace = if is_namespaced { metadata.namespace.clone() } else { String::new() };
        (!is_other_node).then(|| Self { kind, namespace, name: metadata.name.clone() })
    }
}

fn kind_and_metadata(object: &Object) -> Option<(ObjectKind, &ObjectMeta)> {
    match object {
        Object::Service(object) => Some((ObjectKind::Service, &object.metadata)),
        Object::EndpointSlice(object) => Some((ObjectKind::EndpointSlice, &object.metadata)),
        Object::Endpoints(object) => Some((ObjectKind::Endpoints, &object.metadata)),
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
