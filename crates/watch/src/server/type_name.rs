//! What kind of object something says it is, and whether that is the kind that was asked for.
//!
//! A list of something else has none of what was asked for, and would be taken for the word that all of it is gone.

use std::borrow::Cow;

use ferrule_model::{ObjectKind, Quoted};
use serde::Deserialize;

use super::events::ReadError;

/// The type of objects, as they say of themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TypeName {
    api_version: &'static str,
    kind: &'static str,
}

/// What an object, or a list, says of its type.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TypeMeta<'a> {
    #[serde(borrow)]
    pub api_version: Cow<'a, str>,
    #[serde(borrow)]
    pub kind: Cow<'a, str>,
}

impl TypeName {
    pub(super) fn of(kind: ObjectKind) -> Self {
        let (api_version, kind) = match kind {
            ObjectKind::Service => ("v1", "Service"),
            ObjectKind::EndpointSlice => ("discovery.k8s.io/v1", "EndpointSlice"),
            ObjectKind::ServiceCidr => ("networking.k8s.io/v1", "ServiceCIDR"),
            ObjectKind::Node => ("v1", "Node"),
        };
        Self { api_version, kind }
    }

    /// Whether an object is of this type.
    pub(super) fn check(self, found: &TypeMeta<'_>) -> Result<(), ReadError> {
        self.expect(found, self.kind)
    }

    /// Whether something is a list of objects of this type.
    pub(super) fn check_list(self, found: &TypeMeta<'_>) -> Result<(), ReadError> {
        self.expect(found, &format!("{}List", self.kind))
    }

    fn expect(self, found: &TypeMeta<'_>, kind: &str) -> Result<(), ReadError> {
        if found.api_version == self.api_version && found.kind == kind {
            return Ok(());
        }
        let found = format!("{} {}", Quoted(&found.api_version), Quoted(&found.kind));
        Err(ReadError::OtherType { found, wanted: format!("{} {kind}", self.api_version) })
    }
}
