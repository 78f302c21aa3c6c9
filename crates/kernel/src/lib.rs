//! The only code that talks to Linux: nf_tables, conntrack and addresses over netlink.
//!
//! Knows neither Kubernetes nor plans. Objects are typed and comparable ([`nft`]); encoding and decoding them is pure.
//! No other program is run but those of iptables and ipset, where there is no other way; no C library is linked.
//!
//! Tried on 6.18. What older kernels do otherwise:
//!
//! | we ask for | since Linux |
//! |---|---|
//! | conntrack listings filtered by protocol (before: all are sent, and sorted out here) | 5.8 |
//! | a chain deleted in the batch that deletes the last map element pointing at it | 6.2 |

pub mod accounting;
pub mod conntrack;
pub mod interfaces;
pub mod ipset;
pub mod iptables;
pub mod ipvs;
pub mod kernel;
pub mod netlink;
pub mod nft;
pub mod probe;
pub mod profiling;
pub mod sandbox;
pub mod subprocess;
pub mod sys;
pub mod sysctl;
