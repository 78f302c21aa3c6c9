//! IPVS virtual servers over generic netlink, only what cleanup needs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::io::Errno;

use crate::netlink::{Attributes, Message, NetlinkError, Protocol, Request, Socket, Writer};

/// The generic netlink controller, which resolves family names to numbers.
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// Commands and attributes of IPVS.
const DELETE_SERVICE: u8 = 3;
const GET_SERVICE: u8 = 4;
const SERVICE: u16 = 1;
const ADDRESS_FAMILY: u16 = 1;
const PROTOCOL: u16 = 2;
const ADDRESS: u16 = 3;
const PORT: u16 = 4;
/// The fixed part of a body: command, version, two reserved bytes.
const FIXED: usize = 4;
const IPV4: u16 = 2;
const IPV6: u16 = 10;

/// A virtual server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualServer {
    /// The protocol number.
    pub protocol: u16,
    /// The virtual address.
    pub address: IpAddr,
    /// The virtual port.
    pub port: u16,
}

/// A socket to IPVS.
#[derive(Debug)]
pub struct Ipvs {
    socket: Socket,
    family: u16,
}

impl Ipvs {
    /// Opens the socket; `None` if this kernel has no IPVS.
    pub fn open() -> Result<Option<Self>, NetlinkError> {
        let mut socket = Socket::open(Protocol::Generic, &[])?;
        let body = body(GET_FAMILY, |writer| writer.text(FAMILY_NAME, "IPVS"));
        let request = Request {
            operation: "resolving the IPVS netlink family",
            kind: CONTROLLER,
            body: body.as_bytes(),
        };
        let number = |message: &Message<'_>| native_short(message.attributes(FIXED), FAMILY_ID);
        match socket.get(request, number) {
            Ok(family) => Ok(Some(Self { socket, family })),
            Err(NetlinkError::Rejected { rejection, .. }) if rejection.is(Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All virtual servers that have an address.
    pub fn virtual_servers(&mut self) -> Result<Vec<VirtualServer>, NetlinkError> {
        let body = body(GET_SERVICE, |_| {});
        let request =
            Request { operation: "listing virtual servers", kind: self.family, body: body.as_bytes() };
        self.socket.dump_whole(request, |message| virtual_server(message.attributes(FIXED).nested(SERVICE)?))
    }

    /// Deletes a virtual server with its real servers.
    pub fn delete(&mut self, server: &VirtualServer) -> Result<(), NetlinkError> {
        let body = body(DELETE_SERVICE, |writer| writer.nest(SERVICE, |writer| identify(writer, server)));
        let request =
            Request { operation: "removing a virtual server", kind: self.family, body: body.as_bytes() };
        self.socket.request(request)
    }
}

fn body(command: u8, attributes: impl FnOnce(&mut Writer)) -> Writer {
    let mut writer = Writer::new();
    writer.raw(&[command, 1, 0, 0]);
    attributes(&mut writer);
    writer
}

fn identify(writer: &mut Writer, server: &VirtualServer) {
    let (family, address) = match server.address {
        IpAddr::V4(address) => (IPV4, address.octets().to_vec()),
        IpAddr::V6(address) => (IPV6, address.octets().to_vec()),
    };
    writer.bytes(ADDRESS_FAMILY, &family.to_ne_bytes());
    writer.bytes(PROTOCOL, &server.protocol.to_ne_bytes());
    writer.bytes(ADDRESS, &address);
    writer.bytes(PORT, &server.port.to_be_bytes());
}

fn virtual_server(attributes: Attributes<'_>) -> Option<VirtualServer> {
    let bytes = attributes.get(ADDRESS)?.value;
    let address = match native_short(attributes, ADDRESS_FAMILY)? {
        IPV4 => IpAddr::from(Ipv4Addr::from(*bytes.first_chunk::<4>()?)),
        _ => IpAddr::from(Ipv6Addr::from(*bytes.first_chunk::<16>()?)),
    };
    let protocol = native_short(attributes, PROTOCOL)?;
    Some(VirtualServer { protocol, address, port: attributes.get(PORT)?.short()? })
}

fn native_short(attributes: Attributes<'_>, kind: u16) -> Option<u16> {
    attributes.get(kind)?.value.try_into().ok().map(u16::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_server_is_written_as_it_is_read() {
        for address in ["10.96.0.1", "fd96::1"] {
            let server = VirtualServer { protocol: 6, address: address.parse().unwrap(), port: 443 };
            let written =
                body(DELETE_SERVICE, |writer| writer.nest(SERVICE, |writer| identify(writer, &server)));
            let attributes = Attributes::new(&written.as_bytes()[FIXED..]);
            assert_eq!(attributes.nested(SERVICE).and_then(virtual_server), Some(server));
        }
    }
}
