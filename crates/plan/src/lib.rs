//! What this node must do about the cluster's Services: the plan, its planner, its delta, its reference interpreter.
//!
//! Does no I/O, reads no clock, cannot fail, and knows no backend. It speaks of packets, not of Services: each
//! [`Frontend`] (an address or node port) has a list of [`Rules`] in which the first match wins.
//!
//! | frontend | situation | rules, first match wins (C, L = cluster and local pool, M = masquerade) |
//! |---|---|---|
//! | any | no usable endpoint anywhere | Anyone → Reject |
//! | ClusterIP | local pods can be told | LocalPods → C · Anyone → C+M |
//! | ClusterIP | `masqueradeAll` | Anyone → C+M |
//! | ClusterIP | local pods cannot be told | Anyone → C |
//! | ClusterIP | `internalTrafficPolicy: Local`, some local | as the three above, with L for C |
//! | ClusterIP | … none local | Anyone → Drop |
//! | NodePort, ExternalIP, LoadBalancer | policy Cluster | Anyone → C+M |
//! | the same | policy Local, some local | LocalPods → C · ThisHost → C+M · Anyone → L |
//! | the same | policy Local, none local | LocalPods → C · ThisHost → C+M · Anyone → Drop |
//! | LoadBalancer | with source ranges | OutsideRanges → Drop, then as above |
//!
//! Where kube-proxy's modes disagree with the table, the difference has a name in [`Quirk`].
//!
//! Read on in the order a change takes: [`replan`] → pools → topology → policy → frontends → conflicts → [`PlanDelta`].
//! To learn what a plan means for a packet, ask [`outcome`]; to read one, [`show()`].

mod addresses;
mod conflicts;
mod conntrack;
mod delta;
mod frontends;
mod health_checks;
mod ir;
mod node_traffic;
mod oracle;
mod planner;
mod policy;
mod pools;
mod ports;
mod quirks;
mod show;
mod topology;
mod view;

pub use addresses::*;
pub use conntrack::*;
pub use delta::*;
pub use ir::*;
pub use oracle::*;
pub use planner::*;
pub use ports::*;
pub use quirks::*;
pub use show::*;
pub use view::*;
