//! The wire format of virtual servers, by examples and at random.

use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;

use super::wire::{self, FIXED, Listed};
use super::*;
use crate::netlink::{Attributes, Messages, Writer, flags};

/// The family number of the examples.
const FAMILY: u16 = 0x21;

fn message(change: &IpvsChange, sequence: u32) -> Writer {
    let mut writer = Writer::new();
    wire::write_change(&mut writer, change, FAMILY, sequence);
    writer.add_flags_to_last_message(flags::ACK);
    writer
}

fn hex(writer: &Writer) -> String {
    let words = writer.as_bytes().as_chunks::<4>().0.iter();
    words.map(|bytes| format!("{:08x}", u32::from_be_bytes(*bytes))).collect::<Vec<_>>().join(" ")
}

fn id(address: &str, protocol: u8, port: u16) -> VirtualServerId {
    VirtualServerId { address: address.parse().unwrap(), protocol, port }
}

#[test]
#[cfg(target_endian = "little")]
fn a_virtual_server_is_written_as_ipvsadm_does() {
    let server =
        VirtualServer { id: id("10.0.0.1", 6, 80), scheduler: "rr".into(), flags: 1, timeout: 10800 };
    let expected = "5c000000 21000500 01000000 00000000 01010000 48000100 06000100 02000000 06000200 06000000 \
                    08000300 0a000001 06000400 00500000 07000600 72720000 0c000700 01000000 ffffffff 08000800 \
                    302a0000 08000900 ffffffff";
    assert_eq!(hex(&message(&IpvsChange::AddService(server), 1)), expected);
}

#[test]
#[cfg(target_endian = "little")]
fn a_real_server_is_written_as_ipvsadm_does() {
    let server = RealServer { address: "10.1.1.1:8080".parse().unwrap(), weight: 1 };
    let change = IpvsChange::AddServer { service: id("10.0.0.1", 6, 80), server };
    let expected = "6c000000 21000500 02000000 00000000 05010000 24000100 06000100 02000000 06000200 06000000 \
                    08000300 0a000001 06000400 00500000 34000200 08000100 0a010101 06000200 1f900000 08000300 \
                    00000000 08000400 01000000 08000500 00000000 08000600 00000000";
    assert_eq!(hex(&message(&change, 2)), expected);
}

#[test]
fn a_virtual_server_is_told_by_address_port_and_protocol() {
    assert_eq!(id("10.0.0.1", 6, 80).to_string(), "10.0.0.1:80/TCP");
    assert_eq!(id("fd00::1", 17, 53).to_string(), "[fd00::1]:53/UDP");
    assert_eq!(id("10.0.0.1", 132, 7).to_string(), "10.0.0.1:7/SCTP");
    assert_eq!(id("10.0.0.1", 1, 0).to_string(), "10.0.0.1:0/1");
}

#[test]
fn a_service_with_a_firewall_mark_has_no_address() {
    for (number, family) in [(2_u16, Family::Ip), (10, Family::Ip6)] {
        let body = wire::body(1, |writer| {
            writer.nest_unmarked(1, |writer| {
                writer.bytes(1, &number.to_ne_bytes());
                writer.bytes(5, &7_u32.to_ne_bytes());
            });
        });
        let listed = wire::listed(Attributes::new(&body.as_bytes()[FIXED..]));
        assert_eq!(listed, Some(Listed::Fwmark(FirewallMark { family, mark: 7 })));
    }
}

#[test]
fn counters_are_read_from_old_kernels_too() {
    let seen = |long: bool| {
        let body = wire::body(5, |writer| {
            writer.nest_unmarked(2, |writer| {
                // Without a family: the zeros say that it is IPv4.
                writer.bytes(1, &[10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                writer.bytes(2, &80_u16.to_be_bytes());
                writer.bytes(3, &3_u32.to_ne_bytes());
                writer.bytes(4, &1_u32.to_ne_bytes());
                writer.bytes(7, &5_u32.to_ne_bytes());
                writer.nest_unmarked(10, |writer| {
                    writer.bytes(1, &1_u32.to_ne_bytes());
                    writer.bytes(4, &4_u64.to_ne_bytes());
                });
                if long {
                    writer.nest_unmarked(12, |writer| writer.bytes(1, &(1_u64 << 40).to_ne_bytes()));
                }
            });
        });
        wire::seen_server(Attributes::new(&body.as_bytes()[FIXED..])).unwrap()
    };
    let old = seen(false);
    assert_eq!(old.server.address, "10.0.0.1:80".parse().unwrap());
    assert_eq!((old.forwarding, old.active, old.inactive), (3, 5, 0));
    assert_eq!(old.stats, Stats { connections: 1, in_bytes: 4, ..Stats::default() });
    assert_eq!(seen(true).stats, Stats { connections: 1 << 40, ..Stats::default() });
}

fn any_server() -> impl Strategy<Value = (VirtualServer, RealServer)> {
    let ipv4 = (any::<[u8; 4]>(), any::<[u8; 4]>()).prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b)));
    let ipv6 = (any::<[u8; 16]>(), any::<[u8; 16]>()).prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b)));
    let numbers = (any::<u8>(), any::<u16>(), any::<u16>(), any::<u32>(), any::<u32>(), any::<u32>());
    (prop_oneof![ipv4, ipv6], "[a-z]{1,15}", numbers).prop_map(|(addresses, scheduler, numbers)| {
        let (protocol, port, real_port, flags, timeout, weight) = numbers;
        let id = VirtualServerId { address: addresses.0, protocol, port };
        let server = VirtualServer { id, scheduler: scheduler.into(), flags: flags & !0x2, timeout };
        (server, RealServer { address: SocketAddr::new(addresses.1, real_port), weight })
    })
}

proptest! {
    #[test]
    fn servers_are_read_as_they_are_written((server, real) in any_server()) {
        let written = message(&IpvsChange::SetService(server.clone()), 1);
        let read = Messages::new(written.as_bytes()).next().and_then(|message| wire::listed(message.attributes(FIXED)));
        let seen = SeenVirtualServer { server: server.clone(), stats: Stats::default() };
        prop_assert_eq!(read, Some(Listed::Server(seen)));
        let written = message(&IpvsChange::SetServer { service: server.id, server: real }, 1);
        let read = Messages::new(written.as_bytes()).next().and_then(|message| wire::seen_server(message.attributes(FIXED)));
        // The request does not say the family, as answers do: then only addresses that look like it are IPv4.
        let looks_like_ipv4 = match real.address.ip() {
            IpAddr::V4(_) => true,
            IpAddr::V6(address) => address.octets()[4..].iter().all(|byte| *byte == 0),
        };
        if looks_like_ipv4 == real.address.is_ipv4() {
            prop_assert_eq!(read.map(|read| read.server), Some(real));
        }
    }

    #[test]
    fn any_answer_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        wire::listed(Attributes::new(&bytes));
        wire::seen_server(Attributes::new(&bytes));
    }
}
