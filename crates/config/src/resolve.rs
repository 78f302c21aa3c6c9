//! What settings mean on this node: its name, addresses, families, local detectors, and whether all that fits.
//!
//! Pure functions of settings and of what the caller found out (the Node object, `/proc`, whether a mode works here).
//! The Node's addresses themselves are chosen in `ferrule_model`; nothing here reads a clock or a file.

mod detectors;
mod families;
mod node;
mod node_name;
mod node_ports;
mod sanity;

pub use detectors::local_detection;
pub use families::{Families, FamilyError, FamilySupport, Stack, families};
pub use node::{NodeAddresses, NodeStart, NodeStartError, NodeWait};
pub(crate) use node_name::node_name;
pub use node_name::{NodeNameError, resolve_node_name};
pub use node_ports::{NodePorts, node_ports};
pub use sanity::{
    FamilyMismatch, MismatchedSetting, NodeContext, NodePortComplaint, check_families, check_node_ports,
};

#[cfg(test)]
mod tests;
