//! The rows of the specification that need no kernel: one in memory takes its place. Packets, and the rest, are in
//! `tests/modes` and `crates/e2e/tests/ipvs`.

mod departing;
mod draining;
mod drift;
mod endpoints;
mod node;
mod ownership;
mod sets_and_rules;
mod tables;
mod trouble;
mod virtual_servers;

use node::Node;
