//! The wire format of sets, by examples and at random.

use std::net::IpAddr;

use ipnet::IpNet;
use proptest::prelude::*;

use super::wire::{self, Command, FIXED};
use super::*;
use crate::netlink::{Attributes, MessageHeader, Messages, Rejection, Writer, flags};

fn spec(name: &str, set_type: SetType, family: Family) -> SetSpec {
    SetSpec { name: name.into(), set_type, family }
}

fn hex(writer: &Writer) -> String {
    let words = writer.as_bytes().as_chunks::<4>().0.iter();
    words.map(|bytes| format!("{:08x}", u32::from_be_bytes(*bytes))).collect::<Vec<_>>().join(" ")
}

#[test]
#[cfg(target_endian = "little")]
fn a_set_is_made_as_ipset_does() {
    let body = wire::create(7, &spec("KUBE-CLUSTER-IP", SetType::HashIpPort, Family::Ip), 5);
    let mut message = Writer::new();
    let flags = flags::REQUEST | flags::ACK | flags::CREATE;
    message.message(MessageHeader { kind: Command::Create.kind(), flags, sequence: 1 }, |writer| {
        writer.raw(body.as_bytes());
    });
    let expected = "68000000 02060504 01000000 00000000 02000000 05000100 07000000 14000200 4b554245 2d434c55 \
                    53544552 2d495000 11000300 68617368 3a69702c 706f7274 00000000 05000400 05000000 05000500 \
                    02000000 14000780 08001240 00000400 08001340 00010000";
    assert_eq!(hex(&message), expected);
}

#[test]
#[cfg(target_endian = "little")]
fn an_entry_is_added_as_ipset_does() {
    let set = spec("KUBE-CLUSTER-IP", SetType::HashIpPort, Family::Ip);
    let entry = SetEntry::IpPort { ip: "10.0.0.1".parse().unwrap(), protocol: 6, port: 80 };
    let mut message = Writer::new();
    wire::write_change(&mut message, &SetChange { set: &set, entry, add: true }, 7, 1);
    message.add_flags_to_last_message(flags::ACK);
    let expected = "50000000 09060500 01000000 00000000 02000000 05000100 07000000 14000200 4b554245 2d434c55 \
                    53544552 2d495000 20000780 0c000180 08000140 0a000001 05000700 06000000 06000440 00500000";
    assert_eq!(hex(&message), expected);
}

#[test]
fn entries_have_ipsets_text() {
    let (ip, protocol, port) = ("10.0.0.1".parse().unwrap(), 6, 80);
    let net = |text: &str| SetEntry::IpPortNet { ip, protocol, port, net: text.parse().unwrap() };
    for (entry, text) in [
        (SetEntry::Ip("fd00::1".parse().unwrap()), "fd00::1"),
        (SetEntry::IpPort { ip, protocol: 17, port }, "10.0.0.1,udp:80"),
        (SetEntry::IpPort { ip, protocol: 132, port }, "10.0.0.1,sctp:80"),
        (SetEntry::IpPortIp { ip, protocol, port, ip2: ip }, "10.0.0.1,tcp:80,10.0.0.1"),
        (net("10.1.2.3/16"), "10.0.0.1,tcp:80,10.1.0.0/16"),
        (net("10.1.2.3/32"), "10.0.0.1,tcp:80,10.1.2.3"),
        (SetEntry::Port(30080), "30080"),
    ] {
        assert_eq!(entry.to_string(), text);
    }
}

#[test]
fn error_codes_of_its_own_are_put_into_words() {
    assert_eq!(Rejection::from_errno(FULL).to_string(), "the set is full");
    assert_eq!(Rejection::from_errno(BUSY).to_string(), "the set is in use");
    assert_eq!(
        Rejection::from_errno(5000).to_string(),
        "an error of the kernel's ip_set that is not known here"
    );
    assert_eq!(Rejection::from_errno(17).to_string(), "File exists (os error 17)");
}

fn any_entry() -> impl Strategy<Value = SetEntry> {
    let ipv4 = (any::<[u8; 4]>(), any::<[u8; 4]>(), 0..=32_u8)
        .prop_map(|(a, b, prefix)| (IpAddr::from(a), IpNet::new(b.into(), prefix).unwrap()));
    let ipv6 = (any::<[u8; 16]>(), any::<[u8; 16]>(), 0..=128_u8)
        .prop_map(|(a, b, prefix)| (IpAddr::from(a), IpNet::new(b.into(), prefix).unwrap()));
    let kind = proptest::sample::select(&SetType::ALL[..]);
    (kind, prop_oneof![ipv4, ipv6], any::<u8>(), any::<u16>()).prop_map(
        |(kind, (ip, net), protocol, port)| match kind {
            SetType::HashIp => SetEntry::Ip(ip),
            SetType::HashIpPort => SetEntry::IpPort { ip, protocol, port },
            SetType::HashIpPortIp => SetEntry::IpPortIp { ip, protocol, port, ip2: net.addr() },
            SetType::HashIpPortNet => SetEntry::IpPortNet { ip, protocol, port, net: net.trunc() },
            SetType::BitmapPort => SetEntry::Port(port),
        },
    )
}

proptest! {
    #[test]
    fn entries_are_read_as_they_are_written(entries in proptest::collection::vec(any_entry(), 1..20)) {
        for entry in entries {
            let set = spec("s", entry.set_type(), Family::Ip);
            let mut written = Writer::new();
            wire::write_change(&mut written, &SetChange { set: &set, entry, add: true }, 7, 1);
            let message = Messages::new(written.as_bytes()).next().unwrap();
            let data = message.attributes(FIXED).get(7).unwrap();
            // A listing has many of them in one nest.
            let mut listed = Writer::new();
            listed.nest(8, |writer| {
                writer.bytes(7, data.value);
                writer.bytes(7, data.value);
            });
            prop_assert_eq!(wire::entries(Attributes::new(listed.as_bytes()), set.set_type), [entry, entry]);
        }
    }

    #[test]
    fn any_answer_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        wire::seen_set(Attributes::new(&bytes));
        for set_type in SetType::ALL {
            wire::entries(Attributes::new(&bytes), set_type);
        }
    }
}
