//! What Kubernetes says, distilled to what a service proxy needs: services, endpoints, this node.
//!
//! Does no I/O, reads no clock, cannot fail. Objects come in as [`Change`]s, made by `ferrule-watch` from what the API
//! server sends; what this node must do about them is worked out in `ferrule-plan`.
//!
//! | Kubernetes says | here it is |
//! |---|---|
//! | Service | [`Service`], its ports [`ServicePort`] |
//! | `namespace/name:port` | [`ServicePortName`] |
//! | `internalTrafficPolicy`, `externalTrafficPolicy` | [`TrafficPolicy`] |
//! | EndpointSlice, endpoint, conditions, hints | [`EndpointSlice`], [`Endpoint`], [`Conditions`], [`Hints`] |
//! | all endpoints of a Service port | [`merged`] slices, a list of [`PortEndpoint`] |
//! | this Node | [`Node`]; its address per family [`NodeIps`] |
//! | `nodePortAddresses` | [`NodePortSelector`], then [`NodePortAddresses`] per family |
//! | ServiceCIDR | [`Cluster::service_cidrs`] |
//! | an event of the watch | [`Change`]; what it means: [`Touched`] |
//! | an object that cannot be used | [`Diagnostic`] |

mod address;
mod backoff;
mod causes;
mod cluster;
mod diagnostic;
mod endpoints;
mod names;
mod node;
mod node_ports;
mod port_names;
mod report_once;
mod service;
mod time;
mod trigger_times;

pub use address::*;
pub use backoff::*;
pub use causes::*;
pub use cluster::*;
pub use diagnostic::*;
pub use endpoints::*;
pub use names::*;
pub use node::*;
pub use node_ports::*;
pub use report_once::*;
pub use service::*;
pub use time::*;
pub use trigger_times::*;
