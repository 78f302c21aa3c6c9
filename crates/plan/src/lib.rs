//! What this node must do about the cluster's Services: the plan, its planner, its delta, its reference interpreter.
//!
//! Does no I/O, reads no clock, cannot fail, and knows no backend. It speaks of packets, not of Services: each
//! [`Frontend`] (an address or node port) has a [`Shape`], which is what backends compile. Read as a list of [`Rules`] in
//! which the first match wins, a shape is one row of this table:
//!
//! | frontend | situation | rules, first match wins (C, L = cluster and local pool, M = masquerade) |
//! |---|---|---|
//! | any | no usable endpoint anywhere | Anyone → Reject |
//! | ClusterIP | local pods can be recognized | LocalPods → C · Anyone → C+M |
//! | ClusterIP | `masqueradeAll` | Anyone → C+M |
//! | ClusterIP | local pods cannot be recognized | Anyone → C |
//! | ClusterIP | `internalTrafficPolicy: Local`, some local | as the three above, with L for C |
//! | ClusterIP | … none local | Anyone → Drop |
//! | NodePort, ExternalIP, LoadBalancer | policy Cluster | Anyone → C+M |
//! | the same | policy Local, some local | LocalPods → C · ThisHost → C+M · Anyone → L |
//! | the same | policy Local, none local | LocalPods → C · ThisHost → C+M · Anyone → Drop |
//! | LoadBalancer | with source ranges | OutsideRanges → Drop, then as above |
//!
//! Where kube-proxy's modes disagree with the table, the difference has a name in [`Quirk`].
//!
//! Read on in the order a change takes: [`replan`] → pools → topology → policy → [`Shape`] → frontends → conflicts → [`PlanDelta`].
//! To learn what a plan means for a packet, ask [`outcome`]; to read one, [`show()`]; to learn why it is so, an
//! [`Explainer`].

mod addresses;
mod conflicts;
mod conntrack;
mod delta;
mod explain;
mod frontends;
mod health_checks;
mod ir;
mod mode;
mod node_traffic;
mod oracle;
mod planner;
mod policy;
mod pools;
mod port_plan;
mod ports;
mod quirks;
mod reasons;
mod rules;
mod shape;
mod show;
mod summary;
mod topology;
mod view;

pub use addresses::*;
pub use conntrack::*;
pub use delta::*;
pub use explain::*;
pub use ir::*;
pub use mode::*;
pub use oracle::*;
pub use planner::*;
pub use ports::*;
pub use quirks::*;
pub use reasons::*;
pub use rules::*;
pub use shape::*;
pub use show::*;
pub use summary::*;
pub use view::*;
