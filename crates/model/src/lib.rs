//! What Kubernetes says, distilled to what a service proxy needs.
mod address;
mod names;
mod node;
mod node_ports;
pub use address::*;
pub use names::*;
pub use node::*;
pub use node_ports::*;
