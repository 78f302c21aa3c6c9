//! nftables mode: a Service is a few map elements.
//!
//! One table `kube-proxy` for each family. The number of maps, sets and chains does not depend on the number of Services or
//! endpoints: chains exist for each *pool size* in use, and what a Service adds is elements.
//!
//! ```text
//!   prerouting / output          services ──► K map @services ─┐► cluster-3   mark unless from a pod ──┐
//!   (nat, -100)                            └► P map @nodeports ┴► nodeport-3  mark ────────────────────┤
//!                                              (vmap @dispatch)   external-3  mark ────────────────────┤
//!                                                                 external-local-3-2                   │
//!                                                                   pods, this host ► pool-3           ▼
//!                                                                   others ► local-pool-2     K . slot map @endpoints
//!                                                                                                dnat
//!   postrouting (nat, 100)       masquerading: the marked, and hairpins
//!   prerouting / output (-110)   firewall-check: source ranges
//!   input, forward, output (0)   no endpoints → reject, unused ports → reject, unallocated → drop
//! ```
//!
//! K is destination address, protocol and port; P is protocol and port; a slot is a random number below the pool's size.

mod backend;
mod base;
mod chain_ids;
mod element_diff;
mod error;
pub(crate) mod exprs;
mod frontend;
mod hash;
pub(crate) mod keys;
pub mod metrics;
pub mod names;
pub mod packet_path;
mod pool;
mod pool_chains;
mod reconciler;
mod ref_counts;
mod rule_set;
pub mod shadow;
mod sticky_ids;
mod watch;

pub use backend::{Nftables, TableDataplane};
pub use chain_ids::{ChainIds, DispatchTarget};
pub use error::SyncError;
pub use frontend::{Compiled, Compiler, Pools};
pub use reconciler::Reconciler;
pub use rule_set::{Edit, Elements, LAYOUT, RuleSet, StableIds};
pub use sticky_ids::{EndpointAddress, StickyIds, StickyPoolIds};
