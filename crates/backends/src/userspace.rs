//! userspace mode: NAT rules lead packets to sockets of this process, which relays connections to endpoints.
//!
//! ```text
//!   to a Service address ─► KUBE-PORTALS-CONTAINER, KUBE-PORTALS-HOST ──┐
//!                                                                       ├─► REDIRECT, DNAT ─► socket of the Service port ─► endpoint
//!   to a NodePort ────────► KUBE-NODEPORT-CONTAINER, KUBE-NODEPORT-HOST ┘         portals          ferrule-relay
//! ```
//!
//! A Service port has one socket, or two where policies distinguish traffic (`wanted`). Chains, jumps and rules are those of
//! kube-proxy 1.25 (`rules`), written only when Services change: endpoints are a matter of this process alone.

mod backend;
mod claims;
mod counters;
mod dataplane;
mod handover;
mod host_address;
mod metrics;
mod portals;
mod rules;
mod socket_names;
mod sockets;
mod steering;
mod wanted;

#[cfg(test)]
mod tests;

pub use backend::Userspace;
pub(crate) use backend::{RESERVED_DESCRIPTORS, RelayLog};
pub(crate) use portals::{PortalKey, Portals, SocketError};
pub(crate) use rules::CHAINS;
pub(crate) use sockets::open as open_socket;
pub(crate) use wanted::PortalSpec;
