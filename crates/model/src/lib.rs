//! What Kubernetes says, distilled to what a service proxy needs.
mod address;
pub use address::*;
