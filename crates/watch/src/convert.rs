//! Converts API objects into changes of the model.
//!
//! Never fails: an invalid field is dropped, an object that cannot be used is dropped, and either is reported as one
//! [`Diagnostic`]. What kube-proxy ignores silently (headless Services, blank entries) is ignored silently.

mod endpoint_slice;
mod endpoints;
mod fields;
mod node;
mod service;
mod service_cidr;
mod service_ports;

pub use endpoint_slice::{endpoint_slice, endpoint_slice_deleted};
pub(crate) use endpoints::is_truncated;
pub use endpoints::{endpoints, endpoints_deleted};
pub use node::node;
pub use service::{service, service_deleted};
pub use service_cidr::{service_cidr, service_cidr_deleted};

use ferrule_model::{Change, Diagnostic};

/// The result of converting one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// `None` if not even its name can be used.
    pub change: Option<Change>,
    /// Its invalid fields.
    pub diagnostics: Vec<Diagnostic>,
}
