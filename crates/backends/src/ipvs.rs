//! ipvs mode: the kernel's own load balancer.
//!
//! ```text
//!   packet to a service address ──► nat: KUBE-SERVICES marks what is to be masqueraded
//!     its address is on kube-ipvs0, so it is delivered to this host
//!       ──► filter INPUT: KUBE-IPVS-FILTER refuses ports that are not served, KUBE-PROXY-FIREWALL checks source ranges
//!       ──► IPVS: the virtual server picks a real server ──► nat: KUBE-POSTROUTING masquerades what is marked
//! ```
//!
//! Services are virtual servers, addresses of a dummy interface and entries of address sets; the rules refer to the sets and do
//! not depend on the number of Services. Names are kube-proxy's, and so is what `ipvsadm`, `ipset` and `iptables-save` show.

mod backend;
mod counters;
mod dataplane;
mod departure;
mod drain;
mod edit;
mod findings;
mod host;
mod kernel;
mod leftovers;
mod options;
mod passes;
mod patch;
mod program;
mod rules;
mod sets;
mod slices;
mod wanted;
mod watch;
mod write;

#[cfg(test)]
mod tests;

pub use backend::Ipvs;
pub use leftovers::remove_sets;
pub use program::program;
