//! The type an object or list claims to have, checked against the type that was requested.
//!
//! A list of another type holds none of the requested objects. Without the check it would read as "all of them were
//! deleted".

use std::borrow::Cow;

use ferrule_model::{ObjectKind, Quoted};
use serde::Deserialize;

use super::events::ReadError;

/// The type that was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TypeName {
    api_version: &'static str,
    kind: &'static str,
}

/// The `apiVersion` and `kind` of an object or list.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TypeMeta<'a> {
    #[serde(borrow)]
    pub api_version: Cow<'a, str>,
    #[serde(borrow)]
    pub kind: Cow<'a, str>,
}

impl TypeName {
    pub(super) fn for_kind(kind: ObjectKind) -> Self {
        let (api_version, kind) = match kind {
            ObjectKind::Service => ("v1", "Service"),
            ObjectKind::EndpointSlice => ("discovery.k8s.io/v1", "EndpointSlice"),
            ObjectKind::Endpoints => ("v1", "Endpoints"),
            ObjectKind::ServiceCidr => ("networking.k8s.io/v1", "ServiceCIDR"),
            ObjectKind::Node => ("v1", "Node"),
        };
        Self { api_version, kind }
    }

    pub(super) fn check_object(self, found: &TypeMeta<'_>) -> Result<(), ReadError> {
        self.check(found, self.kind)
    }

    pub(super) fn check_list(self, found: &TypeMeta<'_>) -> Result<(), ReadError> {
        self.check(found, &format!("{}List", self.kind))
    }

    fn check(self, found: &TypeMeta<'_>, kind: &str) -> Result<(), ReadError> {
        if found.api_version == self.api_version && found.kind == kind {
            return Ok(());
        }
        let found = format!("{} {}", Quoted(&found.api_version), Quoted(&found.kind));
        Err(ReadError::OtherType { found, wanted: format!("{} {kind}", self.api_version) })
    }
}
