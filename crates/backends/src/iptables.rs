//! iptables mode: a Service is a few chains.
//!
//! The chains, rules and comments are those kube-proxy writes, so that everything people know about reading them holds. What
//! differs is how they get there: a change writes the chains it changes and no others, and a start writes nothing if nothing
//! is to be changed.
//!
//! ```text
//!   PREROUTING, OUTPUT ─► KUBE-SERVICES ─► KUBE-SVC-x ─► KUBE-SEP-y  DNAT
//!   (nat)                   │         └──► KUBE-EXT-x ─► KUBE-SVC-x, KUBE-SVL-x
//!                           │         └──► KUBE-FW-x  ─► KUBE-EXT-x
//!                           └► KUBE-NODEPORTS ─► KUBE-EXT-x
//!   POSTROUTING (nat) ──► KUBE-POSTROUTING           MASQUERADE what KUBE-MARK-MASQ marked
//!   INPUT, FORWARD, OUTPUT (filter)
//!     KUBE-SERVICES, KUBE-EXTERNAL-SERVICES          no endpoints: REJECT, none here: DROP
//!     KUBE-PROXY-FIREWALL                            what KUBE-FW-x did not let through
//!     KUBE-NODEPORTS, KUBE-FORWARD, KUBE-FIREWALL    health checks in, forwarding, martians out
//!   PREROUTING (mangle) ──► FERRULE-LOCALNET         the one chain that kube-proxy does not have, see [`localnet`]
//! ```

mod backend;
mod base;
mod canary;
mod check_schedule;
mod drain_rule;
mod edit;
mod frontend;
mod known;
mod leftovers;
pub mod localnet;
mod localnet_switch;
pub mod metrics;
mod names;
mod observed;
mod pool;
mod reconciler;
mod rejected_rule;
mod rule_check;
mod rule_set;
mod suspected;
mod verify;
mod watch;

pub use backend::Iptables;
pub(crate) use backend::{probe_access, unopened};
pub use base::{Host, INVALID_COUNTER, LOOPBACK_COUNTER};
pub use canary::{CanaryState, canary};
pub use known::KnownRules;
pub use leftovers::{
    LeftoverError, Removed, remove_from_other_variant, remove_iptables_leftovers, remove_ipvs_leftovers,
    remove_ipvs_nat_leftovers, remove_leftovers, remove_nat_leftovers, remove_userspace_leftovers,
};
pub use localnet::{LocalnetBefore, LocalnetError};
pub use names::CANARY;
pub(crate) use pool::beginning_with as interface_prefix;
pub use reconciler::Reconciler;
pub use rejected_rule::{RejectedPart, RejectedRule};
pub use verify::{Correction, Scope, Verified, Verifier};
