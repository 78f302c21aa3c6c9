//! IPVS over generic netlink: virtual servers, their real servers with connection counts, and timeouts.
//!
//! Decides nothing: which servers there should be is a backend's business. Real servers are always written for masquerading, the
//! only way of forwarding that kube-proxy uses. Services that are chosen by a firewall mark are listed and never written.
//! [`Ipvs`] is the client; backends use it as [`VirtualServers`](crate::port::VirtualServers).

mod client;
mod wire;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

pub use client::{Ipvs, Timeouts, Version};

use crate::conntrack::{SCTP, TCP, UDP};
use crate::nft::Family;

/// What identifies a virtual server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualServerId {
    /// The virtual address.
    pub address: IpAddr,
    /// The IP protocol number.
    pub protocol: u8,
    /// The virtual port.
    pub port: u16,
}

impl fmt::Display for VirtualServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = SocketAddr::new(self.address, self.port);
        match self.protocol {
            TCP => write!(f, "{server}/TCP"),
            UDP => write!(f, "{server}/UDP"),
            SCTP => write!(f, "{server}/SCTP"),
            other => write!(f, "{server}/{other}"),
        }
    }
}

/// A virtual server as it is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualServer {
    /// What identifies it.
    pub id: VirtualServerId,
    /// The name of its scheduler.
    pub scheduler: Arc<str>,
    /// `IP_VS_SVC_F_*`, without the mark that the kernel keeps for itself (0x2, hashed).
    pub flags: u32,
    /// How long a client is sent to the same real server, in seconds.
    pub timeout: u32,
}

/// A real server as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RealServer {
    /// Its address and port.
    pub address: SocketAddr,
    /// Its share of new connections; none at 0.
    pub weight: u32,
}

/// A real server as the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeenRealServer {
    /// What can be written of it.
    pub server: RealServer,
    /// How packets are forwarded to it: 0 is masquerading.
    pub forwarding: u32,
    /// Connections that are established.
    pub active: u32,
    /// Connections in other states.
    pub inactive: u32,
    /// Clients that are bound to it.
    pub persistent: u32,
    /// What it has served.
    pub stats: Stats,
}

/// What a server has served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stats {
    /// Connections so far.
    pub connections: u64,
    /// Packets from clients.
    pub in_packets: u64,
    /// Packets to clients.
    pub out_packets: u64,
    /// Bytes from clients.
    pub in_bytes: u64,
    /// Bytes to clients.
    pub out_bytes: u64,
}

/// A virtual server as the kernel has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeenVirtualServer {
    /// What can be written of it.
    pub server: VirtualServer,
    /// What it has served.
    pub stats: Stats,
}

/// All virtual servers of both families.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenVirtualServers {
    /// Those that have an address.
    pub servers: Vec<SeenVirtualServer>,
    /// Those that are chosen by a firewall mark.
    pub fwmarks: Vec<FirewallMark>,
}

/// What chooses a virtual server without an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FirewallMark {
    /// Of whose packets.
    pub family: Family,
    /// The mark.
    pub mark: u32,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IpvsChange {
    /// Adds a virtual server without real servers.
    AddService(VirtualServer),
    /// Changes scheduler, flags and timeout.
    SetService(VirtualServer),
    /// Deletes a virtual server with its real servers.
    DeleteService(VirtualServerId),
    /// Adds a real server.
    AddServer {
        /// To this virtual server.
        service: VirtualServerId,
        /// The real server.
        server: RealServer,
    },
    /// Changes the weight of a real server.
    SetServer {
        /// Of this virtual server.
        service: VirtualServerId,
        /// The real server.
        server: RealServer,
    },
    /// Deletes a real server.
    DeleteServer {
        /// Of this virtual server.
        service: VirtualServerId,
        /// The real server's address and port.
        server: SocketAddr,
    },
}

#[cfg(test)]
mod tests;
