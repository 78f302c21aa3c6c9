//! The relay over loopback: connections, datagrams, failing endpoints, hostile peers.

mod datagrams;
mod failures;
mod limits;
mod servers;
mod streams;
