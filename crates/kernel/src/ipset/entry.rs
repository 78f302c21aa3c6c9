//! An entry of a set.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use super::SetType;
use crate::conntrack::{SCTP, TCP, UDP};

/// An entry of a set. Its text is what `ipset list` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SetEntry {
    /// Of a `hash:ip`.
    Ip(IpAddr),
    /// Of a `hash:ip,port`.
    IpPort {
        /// The address.
        ip: IpAddr,
        /// The IP protocol number.
        protocol: u8,
        /// The port.
        port: u16,
    },
    /// Of a `hash:ip,port,ip`.
    IpPortIp {
        /// The first address.
        ip: IpAddr,
        /// The IP protocol number.
        protocol: u8,
        /// The port.
        port: u16,
        /// The second address.
        ip2: IpAddr,
    },
    /// Of a `hash:ip,port,net`.
    IpPortNet {
        /// The address.
        ip: IpAddr,
        /// The IP protocol number.
        protocol: u8,
        /// The port.
        port: u16,
        /// The network, without bits behind its prefix: the kernel would drop them.
        net: IpNet,
    },
    /// Of a `bitmap:port`.
    Port(u16),
}

impl SetEntry {
    /// The type of the sets that it can be in.
    pub fn set_type(&self) -> SetType {
        match self {
            Self::Ip(_) => SetType::HashIp,
            Self::IpPort { .. } => SetType::HashIpPort,
            Self::IpPortIp { .. } => SetType::HashIpPortIp,
            Self::IpPortNet { .. } => SetType::HashIpPortNet,
            Self::Port(_) => SetType::BitmapPort,
        }
    }
}

impl fmt::Display for SetEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Ip(ip) => write!(f, "{ip}"),
            Self::IpPort { ip, protocol, port } => write!(f, "{ip},{}:{port}", ProtocolName(protocol)),
            Self::IpPortIp { ip, protocol, port, ip2 } => {
                write!(f, "{ip},{}:{port},{ip2}", ProtocolName(protocol))
            }
            Self::IpPortNet { ip, protocol, port, net } => {
                write!(f, "{ip},{}:{port},", ProtocolName(protocol))?;
                if net.prefix_len() == net.max_prefix_len() {
                    write!(f, "{}", net.addr())
                } else {
                    write!(f, "{}", net.trunc())
                }
            }
            Self::Port(port) => write!(f, "{port}"),
        }
    }
}

/// A protocol as ipset writes it.
struct ProtocolName(u8);

impl fmt::Display for ProtocolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            TCP => f.write_str("tcp"),
            UDP => f.write_str("udp"),
            SCTP => f.write_str("sctp"),
            other => write!(f, "{other}"),
        }
    }
}
