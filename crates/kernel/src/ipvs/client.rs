//! The client of IPVS.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;

use super::wire::{self, FIXED, GET_SERVERS, GET_SERVICE, Listed};
use super::{IpvsChange, SeenRealServer, SeenVirtualServers, VirtualServerId};
use crate::netlink::{Message, NetlinkError, Protocol, Rejection, Request, Socket};
use crate::port::VirtualServers;
use crate::subprocess::{self, Run};

/// The generic netlink controller, which resolves family names to numbers.
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const SET_CONFIG: u8 = 12;
const GET_CONFIG: u8 = 13;
const GET_VERSION: u8 = 15;
const VERSION: u16 = 1;
const TIMEOUT_TCP: u16 = 4;
const TIMEOUT_TCP_FIN: u16 = 5;
const TIMEOUT_UDP: u16 = 6;
/// There while the module is loaded.
const PROC_FILE: &str = "/proc/thread-self/net/ip_vs";
/// Loading a module from a slow disk.
const MODPROBE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long connections without packets are remembered, in seconds; 0 keeps what is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// Established TCP connections.
    pub tcp: u32,
    /// TCP connections after a FIN.
    pub tcp_fin: u32,
    /// UDP.
    pub udp: u32,
}

/// The kernel's version of IPVS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The first number.
    pub major: u8,
    /// The second.
    pub minor: u8,
    /// The third.
    pub patch: u8,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// A socket to IPVS.
#[derive(Debug)]
pub struct Ipvs {
    socket: Socket,
    family: u16,
}

impl Ipvs {
    /// Opens the socket; `None` if this kernel has no IPVS, also after an attempt to load it.
    pub fn open() -> Result<Option<Self>, NetlinkError> {
        if let Some(ipvs) = Self::open_loaded()? {
            return Ok(Some(ipvs));
        }
        // Since 5.16 asking for the family loads the module, where that is allowed at all.
        if let Some(ipvs) = Self::resolve()? {
            return Ok(Some(ipvs));
        }
        // If this fails, so does the next line.
        let _ = subprocess::run(&Run {
            program: "modprobe",
            arguments: &["ip_vs"],
            input: "",
            timeout: MODPROBE_TIMEOUT,
            cancel: None,
        });
        Self::resolve()
    }

    /// Like [`Self::open`], without an attempt to load it. Asking for the family would be one.
    pub fn open_loaded() -> Result<Option<Self>, NetlinkError> {
        if !Path::new(PROC_FILE).exists() {
            return Ok(None);
        }
        Self::resolve()
    }

    fn resolve() -> Result<Option<Self>, NetlinkError> {
        let mut socket = Socket::open(Protocol::Generic, &[])?;
        let body = wire::body(GET_FAMILY, |writer| writer.text(FAMILY_NAME, "IPVS"));
        let operation = "resolving the IPVS netlink family";
        let request = Request { operation, kind: CONTROLLER, body: body.as_bytes() };
        match socket.get(request, |message| message.attributes(FIXED).native_short(FAMILY_ID)) {
            Ok(family) => Ok(Some(Self { socket, family })),
            Err(NetlinkError::Rejected { rejection, .. }) if rejection.is(Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The timeouts of connections.
    pub fn timeouts(&mut self) -> Result<Timeouts, NetlinkError> {
        self.get("reading the timeouts of IPVS", GET_CONFIG, |message| {
            let timeout = |kind| message.attributes(FIXED).native_number(kind);
            Some(Timeouts {
                tcp: timeout(TIMEOUT_TCP)?,
                tcp_fin: timeout(TIMEOUT_TCP_FIN)?,
                udp: timeout(TIMEOUT_UDP)?,
            })
        })
    }

    /// Sets the timeouts that are not 0.
    pub fn set_timeouts(&mut self, timeouts: &Timeouts) -> Result<(), NetlinkError> {
        let body = wire::body(SET_CONFIG, |writer| {
            writer.bytes(TIMEOUT_TCP, &timeouts.tcp.to_ne_bytes());
            writer.bytes(TIMEOUT_TCP_FIN, &timeouts.tcp_fin.to_ne_bytes());
            writer.bytes(TIMEOUT_UDP, &timeouts.udp.to_ne_bytes());
        });
        let operation = "setting the timeouts of IPVS";
        self.socket.request(Request { operation, kind: self.family, body: body.as_bytes() })
    }

    /// The version.
    pub fn version(&mut self) -> Result<Version, NetlinkError> {
        self.get("reading the version of IPVS", GET_VERSION, |message| {
            let [_, major, minor, patch] = message.attributes(FIXED).native_number(VERSION)?.to_be_bytes();
            Some(Version { major, minor, patch })
        })
    }

    fn get<T>(
        &mut self,
        operation: &'static str,
        command: u8,
        decode: impl Fn(&Message<'_>) -> Option<T>,
    ) -> Result<T, NetlinkError> {
        let body = wire::body(command, |_| {});
        self.socket.get(Request { operation, kind: self.family, body: body.as_bytes() }, decode)
    }
}

impl VirtualServers for Ipvs {
    fn list(&mut self) -> Result<SeenVirtualServers, NetlinkError> {
        let body = wire::body(GET_SERVICE, |_| {});
        let operation = "listing virtual servers";
        let request = Request { operation, kind: self.family, body: body.as_bytes() };
        let listed = self.socket.dump_whole(request, |message| wire::listed(message.attributes(FIXED)))?;
        let mut seen = SeenVirtualServers::default();
        for service in listed {
            match service {
                Listed::Server(server) => seen.servers.push(server),
                Listed::Fwmark(mark) => seen.fwmarks.push(mark),
            }
        }
        Ok(seen)
    }

    fn real_servers(&mut self, service: &VirtualServerId) -> Result<Vec<SeenRealServer>, NetlinkError> {
        let body = wire::body_about(GET_SERVERS, service);
        let operation = "listing the real servers of a virtual server";
        let request = Request { operation, kind: self.family, body: body.as_bytes() };
        self.socket.dump_whole(request, |message| wire::seen_server(message.attributes(FIXED)))
    }

    fn apply(&mut self, changes: &[IpvsChange]) -> Result<Vec<Result<(), Rejection>>, NetlinkError> {
        let family = self.family;
        self.socket.request_each("changing virtual servers", changes, |writer, change, sequence| {
            wire::write_change(writer, change, family, sequence);
        })
    }
}
