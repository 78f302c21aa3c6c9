//! Converts ServiceCIDRs.

use ferrule_model::{Change, ObjectKind};

use super::Converted;
use super::fields::{FieldReader, Namespaced};
use crate::api;

/// A ServiceCIDR that was added or modified.
pub fn service_cidr(object: &api::ServiceCidr) -> Converted {
    let mut reader = FieldReader::new(ObjectKind::ServiceCidr, &object.metadata);
    if !reader.has_usable_name(&object.metadata, Namespaced::No) {
        return Converted { change: None, diagnostics: reader.diagnostics };
    }
    let texts = object.spec.cidrs.iter().enumerate();
    let blocks =
        texts.filter_map(|(index, text)| reader.cidr(|| format!("spec.cidrs[{index}]"), text)).collect();
    let change = Change::ServiceCidr(object.metadata.name.clone(), Some(blocks));
    Converted { change: Some(change), diagnostics: reader.diagnostics }
}

/// A ServiceCIDR that was deleted.
pub fn service_cidr_deleted(metadata: &api::ObjectMeta) -> Converted {
    Converted { change: Some(Change::ServiceCidr(metadata.name.clone(), None)), diagnostics: Vec::new() }
}
