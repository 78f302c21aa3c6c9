//! nftables mode: a Service is a few map elements.
//!
//! One table `kube-proxy` for each family. The number of maps, sets and chains does not depend on the number of Services or
//! endpoints: chains exist for each *pool size* in use, and what a Service adds is elements.
//!
//! ```text
//!   prerouting / output          services ──► K map @services ─┐► cluster-3   mark unless from a pod ──┐
//!   (nat, -100)                            └► P map @nodeports ┴► nodeport-3  mark ────────────────────┤
//!                                              (vmap @ways)       external-3  mark ────────────────────┤
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

mod base;
mod counts;
mod diff;
mod frontend;
mod hash;
mod keys;
pub mod names;
mod own_commits;
mod pool;
mod pool_chains;
mod program;
mod reconciler;
mod stamp;
mod sticky_ids;
mod way_numbers;
mod words;

pub use frontend::{Compiled, Compiler, Pools};
pub use hash::StateHash;
pub use own_commits::OwnCommits;
pub use program::{Edit, Elements, LAYOUT, Numbers, Program};
pub use reconciler::Reconciler;
pub use stamp::{Stamp, next_generation};
pub use sticky_ids::{PoolNumbers, StickyIds};
pub use way_numbers::{Outcome, WayNumbers};

pub use crate::sync::{Reason, SyncError, SyncReport, Way};
