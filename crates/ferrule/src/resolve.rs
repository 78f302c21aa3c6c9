//! What settings mean on this node: its name, addresses, families, local detectors, and whether all that fits.
//!
//! Pure functions of settings and of facts somebody else gathered (the Node object, `/proc`, whether tools work).
//! The Node's addresses themselves are chosen in `ferrule_model`; nothing here reads a clock or a file.

mod detectors;
mod families;
mod node;
mod node_name;
mod node_ports;
mod sanity;

pub use detectors::{Detectors, local_detection, local_detectors};
pub use families::{Families, FamilyError, FamilyFacts, Stack, families};
pub use node::{NodeFacts, NodeReaction, NodeStart, NodeStartError, NodeWait, react};
pub use node_name::{NodeNameError, node_name, resolve_node_name};
pub use node_ports::{NodePorts, node_ports};
pub use sanity::{
    FamilyComplaint, FamilyVerdict, NodePortComplaint, SanityFacts, check_families, check_node_ports,
};

#[cfg(test)]
mod tests;
