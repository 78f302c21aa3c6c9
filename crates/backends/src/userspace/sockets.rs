//! Binds the sockets of Service ports: any port, or one of `--proxy-port-range`.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use ferrule_kernel::sockets::{bind_tcp, bind_udp, is_listener, listen_tcp};
use ferrule_model::Protocol;
use ferrule_relay::ports::{PortAllocator, PortRange};

use super::portals::{Socket, SocketError};

/// Ports of a range that others may hold, tried before a sync gives up until the next one.
const MAX_TRIES: usize = 64;

/// Binds sockets to one address. TCP and UDP ports are apart.
#[derive(Debug)]
pub(super) struct Sockets {
    address: IpAddr,
    ports: BTreeMap<Protocol, PortAllocator>,
}

impl Sockets {
    pub(super) fn new(address: IpAddr, range: PortRange) -> Self {
        let ports = [Protocol::Tcp, Protocol::Udp].map(|protocol| (protocol, PortAllocator::new(range)));
        Self { address, ports: ports.into() }
    }

    /// A socket that does not listen yet.
    pub(super) fn bind(&mut self, protocol: Protocol) -> Result<Socket, SocketError> {
        let address = self.address;
        let Some(ports) = self.ports.get_mut(&protocol) else {
            return Err(ferrule_relay::ports::NoPortsLeft.into());
        };
        let mut held = Vec::new();
        let bound = loop {
            let port = match ports.allocate() {
                Ok(port) => port,
                Err(none) => break Err(none.into()),
            };
            match bound(protocol, SocketAddr::new(address, port)) {
                // Another process has it: a port of the range that is not tried again at once.
                Err(SocketError::Bind { source, .. })
                    if port != 0 && source.kind() == ErrorKind::AddrInUse && held.len() < MAX_TRIES =>
                {
                    held.push(port);
                }
                Err(error) => {
                    ports.release(port);
                    break Err(error);
                }
                bound @ Ok(_) => break bound,
            }
        };
        for port in held {
            ports.release(port);
        }
        bound
    }

    /// A socket of the process before, if it is one that we would open: right protocol, right address, a port of the range.
    pub(super) fn adopt(&mut self, protocol: Protocol, socket: OwnedFd) -> Option<Socket> {
        let socket = adopted(protocol, socket)?;
        let address = socket.local_addr().ok().filter(|address| address.ip() == self.address)?;
        let ports = self.ports.get_mut(&protocol)?;
        let is_free = match ports.range() {
            PortRange::Any => true,
            PortRange::Between { .. } => ports.claim(address.port()),
        };
        is_free.then_some(socket)
    }

    /// Makes a port free again once its socket is closed.
    pub(super) fn release(&mut self, protocol: Protocol, port: u16) {
        if let Some(ports) = self.ports.get_mut(&protocol) {
            ports.release(port);
        }
    }
}

/// Makes sure that a descriptor is a socket of a protocol, and listens if it has to.
pub(super) fn adopted(protocol: Protocol, socket: OwnedFd) -> Option<Socket> {
    match (protocol, is_listener(&socket)?) {
        (Protocol::Tcp, true) => Some(Socket::Tcp(socket.into())),
        (Protocol::Udp, false) => Some(Socket::Udp(socket.into())),
        (Protocol::Tcp | Protocol::Udp | Protocol::Sctp, _) => None,
    }
}

/// A socket on exactly this address, where clients wait from now on.
pub(crate) fn open(protocol: Protocol, address: SocketAddr) -> Result<Socket, SocketError> {
    let failed = |source| SocketError::Bind { doing: "listening on TCP", address, source };
    match protocol {
        Protocol::Tcp => listen_tcp(address).map(Socket::Tcp).map_err(failed),
        Protocol::Udp | Protocol::Sctp => bound(protocol, address),
    }
}

/// The same, but no client can connect yet.
fn bound(protocol: Protocol, address: SocketAddr) -> Result<Socket, SocketError> {
    let failed = |doing, source| SocketError::Bind { doing, address, source };
    match protocol {
        Protocol::Tcp => bind_tcp(address).map(Socket::Tcp).map_err(|error| failed("binding TCP", error)),
        Protocol::Udp | Protocol::Sctp => {
            bind_udp(address).map(Socket::Udp).map_err(|error| failed("listening on UDP", error))
        }
    }
}
