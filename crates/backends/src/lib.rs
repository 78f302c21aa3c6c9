//! The proxy modes. Each is a [`Backend`]: a compiler from plans to kernel objects, a reconciler that keeps the kernel in line,
//! and what the mode needs of the host from probe to clean-up.
//!
//! ```text
//!   backend(mode) ─► probe ─► prepare_host ─► open ─► one Dataplane a family ─► watch ─► remove_leftovers
//!                                                          │ sync(plan, trigger)
//!                                                          ▼ diff(plan), run_deferred, shutdown
//! ```
//!
//! Backends see plans, never Services, and options as plain values, never flags or files. They do not log: what is worth
//! knowing comes back in reports, notes and errors. Talking to Linux is `ferrule-kernel`'s work.

mod backend;
pub mod cleanup;
pub mod counters;
mod dataplane;
mod error;
mod family;
mod foreign_commits;
mod held;
pub mod iptables;
pub mod ipvs;
mod loopback;
pub mod metrics;
pub mod nftables;
mod own_commits;
mod pair;
mod patch;
mod reader;
mod report;
mod rule_events;
mod shadow;
mod stamp;
mod state_hash;
mod static_rules;
pub mod userspace;

pub use backend::{
    Advice, Backend, Cleanup, InUse, IpvsOptions, Leftover, ModeChoice, ModeOptions, Opened, Probe, Rights,
    UserspaceOptions, backend,
};
pub use cleanup::{CleanupProgress, EntryPoints, OpenConnections, StillOpen};
pub use dataplane::{Cost, Dataplane, Trigger};
pub use error::{BackendError, Findings};
pub use family::{ip_family, table_family};
pub use ferrule_relay::ports::PortRange;
pub use held::HeldFrontend;
pub use own_commits::OwnCommits;
pub use pair::Pair;
pub use patch::Patch;
pub use reader::KernelReader;
pub use report::{Deferred, Note, Rejected, Severity, SyncOutcome, SyncReport};
pub use rule_events::{Drift, LoopEnded, RuleEvent, RuleEventSink};
pub use shadow::Shadow;
pub use stamp::{Stamp, next_generation, previous_generation};
pub use state_hash::StateHash;
