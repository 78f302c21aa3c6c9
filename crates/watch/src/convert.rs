//! Distils API objects into changes of the model.
//!
//! Never fails: an unusable field costs that field, an unusable object that object, and either is told in one
//! [`Diagnostic`]. What kube-proxy ignores without a word (headless Services, blank entries) is ignored without a word.

mod endpoint_slice;
mod fields;
mod node;
mod service;
mod service_cidr;
mod service_ports;

pub use endpoint_slice::{endpoint_slice, endpoint_slice_deleted};
pub use node::node;
pub use service::{service, service_deleted};
pub use service_cidr::{service_cidr, service_cidr_deleted};

use ferrule_model::{Change, Diagnostic};

/// What became of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// What it means; nothing if its very name is unusable.
    pub change: Option<Change>,
    /// What of it could not be used.
    pub diagnostics: Vec<Diagnostic>,
}
