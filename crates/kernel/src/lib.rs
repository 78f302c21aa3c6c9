//! The only code that talks to Linux: nf_tables, conntrack, interfaces, address sets and virtual servers over netlink.
//!
//! Knows neither Kubernetes nor plans. Objects are typed and comparable ([`nft`]); encoding and decoding are pure. Backends use
//! the traits of [`port`]. The only programs that are run are those of iptables, where there is no other way, and `modprobe`;
//! no C library is linked.
//!
//! Tested on 6.18. Features that older kernels lack:
//!
//! | feature | since Linux |
//! |---|---|
//! | conntrack listings filtered by protocol (before: all are sent, and filtered here) | 5.8 |
//! | a chain deleted in the batch that deletes the last map element referring to it | 6.2 |

pub mod accounting;
pub mod conntrack;
pub mod datagrams;
pub mod dummy;
pub mod handover;
pub mod inotify;
pub mod interfaces;
pub mod ipset;
pub mod iptables;
pub mod ipvs;
pub mod local_socket;
pub mod netlink;
pub mod nft;
pub mod port;
pub mod probe;
pub mod profiling;
pub mod sandbox;
pub mod sockets;
pub mod subprocess;
pub mod sys;
pub mod sysctl;
pub mod threads;
