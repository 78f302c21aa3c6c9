//! What the tests against the real kernel share: namespaces of their own, `nft`, iptables, and the rules of a whole proxy.

pub mod iptables_forms;
pub mod iptables_program;
pub mod ipvs_kernel;
pub mod namespace;
pub mod nft_program;
pub mod raw_dump;
pub mod rules;
pub mod skeleton;
