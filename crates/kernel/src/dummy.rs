//! A dummy interface that holds addresses, over rtnetlink.
//!
//! The interface stays down: the kernel delivers packets to its addresses nevertheless, and nothing is announced to neighbours.
//! Notifications are in [`crate::interfaces`]. [`LinkClient`] is the client; backends use it as
//! [`ServiceInterface`].

use std::net::IpAddr;

use ipnet::IpNet;
use rustix::io::Errno;

use crate::interfaces::{
    self, ADDRESS, ADDRESS_FIXED, DELETE_ADDRESS, DELETE_LINK, GET_ADDRESS, GET_LINK, LINK_FIXED, LINK_NAME,
    LOCAL, NEW_ADDRESS, NEW_LINK,
};
use crate::netlink::{
    Message, MessageHeader, NetlinkError, Protocol, Rejection, Request, Socket, Writer, flags,
};
use crate::nft::Family;
use crate::port::ServiceInterface;

const QUEUE_LENGTH: u16 = 13;
const LINK_INFO: u16 = 18;
const KIND: u16 = 1;
/// The kind of interface that is made here.
pub const DUMMY: &str = "dummy";

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its index.
    pub index: u32,
    /// Its kind, such as `dummy` or `veth`; hardware has none.
    pub kind: Option<String>,
}

impl Link {
    /// Whether it is a dummy.
    pub fn is_dummy(&self) -> bool {
        self.kind.as_deref() == Some(DUMMY)
    }
}

/// A socket to rtnetlink.
#[derive(Debug)]
pub struct LinkClient {
    socket: Socket,
}

/// An address that is added to an interface or removed.
struct AddressChange {
    address: IpAddr,
    kind: u16,
}

impl LinkClient {
    /// Opens the socket.
    pub fn open() -> Result<Self, NetlinkError> {
        Ok(Self { socket: Socket::open(Protocol::Route, &[])? })
    }
}

impl ServiceInterface for LinkClient {
    fn find(&mut self, name: &str) -> Result<Option<Link>, NetlinkError> {
        let mut body = link_body(0);
        body.text(LINK_NAME, name);
        let request =
            Request { operation: "looking for an interface", kind: GET_LINK, body: body.as_bytes() };
        match self.socket.get(request, link) {
            Ok(link) => Ok(Some(link)),
            Err(error) if is(&error, Errno::NODEV) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn create_dummy(&mut self, name: &str) -> Result<Link, NetlinkError> {
        let operation = "making a dummy interface";
        let body = dummy_body(name);
        let request = Request { operation, kind: NEW_LINK, body: body.as_bytes() };
        self.socket.request_with(request, flags::CREATE | flags::EXCLUSIVE)?;
        self.find(name)?.ok_or(NetlinkError::Unreadable { operation })
    }

    fn delete(&mut self, link: &Link) -> Result<(), NetlinkError> {
        let body = link_body(link.index);
        let request =
            Request { operation: "removing an interface", kind: DELETE_LINK, body: body.as_bytes() };
        match self.socket.request(request) {
            Err(error) if is(&error, Errno::NODEV) => Ok(()),
            deleted => deleted,
        }
    }

    fn addresses(&mut self, link: &Link) -> Result<Vec<IpAddr>, NetlinkError> {
        let operation = "listing the addresses of an interface";
        let request = Request { operation, kind: GET_ADDRESS, body: &[0; ADDRESS_FIXED] };
        self.socket.dump_whole(request, |message| {
            let found = interfaces::address(message).filter(|found| found.interface == link.index)?;
            let is_host =
                IpNet::new(found.address, found.prefix).is_ok_and(|net| net == IpNet::from(found.address));
            (is_host && can_be_served(found.address)).then_some(found.address)
        })
    }

    fn has_networks(&mut self, link: &Link) -> Result<bool, NetlinkError> {
        let operation = "listing the addresses of an interface";
        let request = Request { operation, kind: GET_ADDRESS, body: &[0; ADDRESS_FIXED] };
        let networks = self.socket.dump_whole(request, |message| {
            let found = interfaces::address(message).filter(|found| found.interface == link.index)?;
            let is_host =
                IpNet::new(found.address, found.prefix).is_ok_and(|net| net == IpNet::from(found.address));
            (!is_host && can_be_served(found.address)).then_some(())
        })?;
        Ok(!networks.is_empty())
    }

    fn change(
        &mut self,
        link: &Link,
        add: &[IpAddr],
        remove: &[IpAddr],
    ) -> Result<Vec<(IpAddr, Rejection)>, NetlinkError> {
        let change = |kind| move |address: &IpAddr| AddressChange { address: *address, kind };
        let added = add.iter().map(change(NEW_ADDRESS));
        let changes: Vec<_> = added.chain(remove.iter().map(change(DELETE_ADDRESS))).collect();
        let operation = "changing the addresses of an interface";
        let outcomes = self.socket.request_each(operation, &changes, |writer, change, sequence| {
            write_address_change(writer, change, link.index, sequence);
        })?;
        let refused = changes.iter().zip(outcomes).filter_map(|(change, outcome)| {
            let rejection = outcome.err().filter(|rejection| !change.was_done_before(rejection))?;
            Some((change.address, rejection))
        });
        Ok(refused.collect())
    }
}

impl AddressChange {
    /// Whether there was nothing to do.
    fn was_done_before(&self, rejection: &Rejection) -> bool {
        if self.kind == NEW_ADDRESS {
            rejection.is(Errno::EXIST)
        } else {
            rejection.is(Errno::ADDRNOTAVAIL) || rejection.is(Errno::NXIO)
        }
    }
}

/// Whether it is an address that a program gave the interface, and not one that every interface has.
pub fn can_be_served(address: IpAddr) -> bool {
    let is_link_local = match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !address.is_loopback() && !is_link_local
}

fn link_body(index: u32) -> Writer {
    let mut fixed = [0; LINK_FIXED];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    let mut writer = Writer::new();
    writer.raw(&fixed);
    writer
}

fn dummy_body(name: &str) -> Writer {
    let mut writer = link_body(0);
    writer.text(LINK_NAME, name);
    writer.bytes(QUEUE_LENGTH, &0_u32.to_ne_bytes());
    writer.nest(LINK_INFO, |writer| writer.text(KIND, DUMMY));
    writer
}

fn write_address_change(writer: &mut Writer, change: &AddressChange, interface: u32, sequence: u32) {
    let creating = if change.kind == NEW_ADDRESS { flags::CREATE | flags::EXCLUSIVE } else { 0 };
    let header = MessageHeader { kind: change.kind, flags: flags::REQUEST | creating, sequence };
    writer.message(header, |writer| match change.address {
        IpAddr::V4(address) => write_address(writer, Family::Ip, interface, &address.octets()),
        IpAddr::V6(address) => write_address(writer, Family::Ip6, interface, &address.octets()),
    });
}

fn write_address(writer: &mut Writer, family: Family, interface: u32, octets: &[u8]) {
    let [a, b, c, d] = interface.to_ne_bytes();
    writer.raw(&[family.number(), family.address_bits(), 0, 0, a, b, c, d]);
    writer.bytes(LOCAL, octets);
    writer.bytes(ADDRESS, octets);
}

fn link(message: &Message<'_>) -> Option<Link> {
    let (index, _) = interfaces::link(message)?;
    let of_kind = message.attributes(LINK_FIXED).nested(LINK_INFO);
    let kind = of_kind.and_then(|of_kind| of_kind.text(KIND)).map(str::to_owned);
    Some(Link { index, kind })
}

fn is(error: &NetlinkError, errno: Errno) -> bool {
    error.rejection().is_some_and(|rejection| rejection.is(errno))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::Messages;

    #[test]
    fn an_address_is_written_as_it_is_read() {
        for text in ["10.96.0.1", "fd96::1"] {
            let address: IpAddr = text.parse().unwrap();
            let mut writer = Writer::new();
            write_address_change(&mut writer, &AddressChange { address, kind: NEW_ADDRESS }, 7, 1);
            let message = Messages::new(writer.as_bytes()).next().unwrap();
            let read = interfaces::address(&message).unwrap();
            assert_eq!((read.address, read.interface), (address, 7));
            assert_eq!(IpAddr::is_ipv4(&address), read.prefix == 32);
        }
    }

    #[test]
    fn addresses_that_the_kernel_made_are_not_ours() {
        let ours = ["10.0.0.1", "fd00::1", "169.254.20.10", "::ffff:10.0.0.1"];
        let others = ["127.0.0.1", "::1", "fe80::1"];
        assert!(ours.iter().all(|text| can_be_served(text.parse().unwrap())));
        assert!(!others.iter().any(|text| can_be_served(text.parse().unwrap())));
    }
}
