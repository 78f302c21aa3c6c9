//! A Service whose endpoints a folder holds twice, as EndpointSlices and as Endpoints: the slices count.
//!
//! A dump of a cluster has both, and they say the same. If they do not, one of them is out of date, and the operator should know.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use ferrule_model::{Change, EndpointSlice, IpFamily, NodeName, PerFamily, ServiceName};

use super::manifest::Object;
use super::objects::FileObject;
use crate::convert::is_truncated;

/// What an object says about the ready endpoints of its Service: a digest, enough to compare the two APIs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReadyEndpoints {
    pub service: ServiceName,
    pub api: Api,
    digests: PerFamily<u64>,
}

/// The API an object is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    EndpointSlices,
    Endpoints,
    /// Endpoints that hold only some of the addresses, so that a comparison says nothing.
    TruncatedEndpoints,
}

impl ReadyEndpoints {
    /// `None` for other kinds, and for objects that cannot be used.
    pub(super) fn of(object: &Object, own_node: &NodeName) -> Option<Self> {
        let api = match object {
            Object::EndpointSlice(_) => Api::EndpointSlices,
            Object::Endpoints(object) if is_truncated(&object.metadata) => Api::TruncatedEndpoints,
            Object::Endpoints(_) => Api::Endpoints,
            Object::Service(_) | Object::Node(_) | Object::ServiceCidr(_) | Object::Other(_) => return None,
        };
        match object.convert(own_node).change? {
            Change::Slice(_, slice, _) => {
                let slice = slice?;
                Some(Self { service: slice.service.clone(), api, digests: digests(&[slice]) })
            }
            Change::Endpoints(service, slices, _) => Some(Self { service, api, digests: digests(&slices) }),
            Change::Service(..) | Change::Node(_) | Change::ServiceCidr(..) => None,
        }
    }
}

/// The Services that have EndpointSlices, with what these say together.
#[derive(Debug, Default)]
pub(super) struct SlicedServices<'a>(HashMap<&'a ServiceName, PerFamily<u64>>);

impl<'a> SlicedServices<'a> {
    pub(super) fn among(objects: impl Iterator<Item = &'a FileObject>) -> Self {
        let mut services: HashMap<&ServiceName, PerFamily<u64>> = HashMap::new();
        let slices = objects.filter_map(|object| object.ready.as_deref());
        for slice in slices.filter(|ready| ready.api == Api::EndpointSlices) {
            add(services.entry(&slice.service).or_default(), &slice.digests);
        }
        Self(services)
    }

    /// Whether the slices replace these Endpoints; `Some(false)` if the two disagree.
    pub(super) fn replaces(&self, endpoints: &ReadyEndpoints) -> Option<bool> {
        let slices = self.0.get(&endpoints.service)?;
        Some(endpoints.api == Api::TruncatedEndpoints || agree(slices, &endpoints.digests))
    }
}

/// Endpoints are of one family, even if the Service has two: the other one is not compared.
fn agree(slices: &PerFamily<u64>, endpoints: &PerFamily<u64>) -> bool {
    let families: Vec<IpFamily> =
        IpFamily::BOTH.into_iter().filter(|family| endpoints.get(*family).is_some()).collect();
    if families.is_empty() {
        return IpFamily::BOTH.into_iter().all(|family| slices.get(family).is_none());
    }
    families.into_iter().all(|family| slices.get(family) == endpoints.get(family))
}

/// Does not depend on the order of endpoints, nor on how they are divided among slices.
fn digests(slices: &[EndpointSlice]) -> PerFamily<u64> {
    let mut sums = PerFamily::default();
    for slice in slices {
        for endpoint in slice.endpoints.iter().filter(|endpoint| endpoint.conditions.ready) {
            for port in &slice.ports {
                let mut hasher = DefaultHasher::new();
                (endpoint.ip, port.name.as_str(), port.protocol, port.number).hash(&mut hasher);
                let mut one = PerFamily::default();
                one.set(slice.family, hasher.finish());
                add(&mut sums, &one);
            }
        }
    }
    sums
}

fn add(sums: &mut PerFamily<u64>, more: &PerFamily<u64>) {
    for (family, digest) in more.iter() {
        let sum = sums.get(family).copied().unwrap_or_default();
        sums.set(family, sum.wrapping_add(*digest));
    }
}
