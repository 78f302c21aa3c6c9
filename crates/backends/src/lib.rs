//! One small compiler per proxy mode: from a plan to kernel objects. Pure: the same plan gives the same objects.
//!
//! Sees plans, never Services. Writing the objects is `ferrule-kernel`'s work, deciding what to write the reconciler's.

mod dataplane;
pub mod iptables;
pub mod ipvs;
pub mod nftables;
mod sync;

pub use dataplane::Dataplane;
pub use sync::{Reason, RuleCounts, SyncError, SyncReport, Way};
