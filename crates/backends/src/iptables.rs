//! iptables mode: a Service is a few chains.

mod leftovers;

pub use leftovers::{LeftoverError, remove_leftovers};
