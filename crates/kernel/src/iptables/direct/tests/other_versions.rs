//! What older and newer versions of iptables write for the same rules.
//!
//! Before 1.8.8: ports and marks as structures, addresses always with a mask. 1.8.11: addresses before the protocol, which is read
//! from the header of IPv4. Versions to come may set marks with expressions. The tests against the programs themselves
//! (`tests/kernel/iptables_beside.rs`, `iptables_encoding.rs`) pass with 1.8.9 and 1.8.11; the rules of 1.8.7 are read as it prints
//! them, but it misreads those of all later versions.

use super::super::expressions::{
    ExtensionName, Payload, compare, compare_range, counter, load_meta, load_payload, mask, matching,
    operation, target, verdict,
};
use super::super::structure::Structure;
use super::decoded;
use crate::netlink::Writer;
use crate::nft::Family;
use crate::nft::constants::expression::{bitwise, compare as comparing, immediate, meta, payload};
use crate::nft::constants::{data, element, expression, rule};
use crate::nft::user_data;

fn check(expected: &str, expressions: impl FnOnce(&mut Writer)) {
    let mut writer = Writer::new();
    writer.nest(rule::EXPRESSIONS, expressions);
    assert_eq!(decoded(&writer, Family::Ip), expected);
}

fn network(offset: u32, length: u32) -> Payload {
    Payload { base: payload::NETWORK, offset, length }
}

fn extension(name: &'static str, revision: u32) -> ExtensionName {
    ExtensionName { name, revision }
}

#[test]
fn the_order_and_the_protocol_of_newer_versions_are_read() {
    check("-s 10.0.0.0/8 -d 192.168.0.0/16 -p udp -m udp --sport 1024:65535 -j ACCEPT", |writer| {
        load_payload(writer, network(12, 1));
        compare(writer, operation(false), &[10]);
        load_payload(writer, network(16, 2));
        compare(writer, operation(false), &[192, 168]);
        load_payload(writer, network(9, 1));
        compare(writer, operation(false), &[17]);
        load_payload(writer, Payload { base: payload::TRANSPORT, offset: 0, length: 2 });
        compare(writer, comparing::GREATER_OR_EQUAL, &[4, 0]);
        counter(writer);
        verdict(writer, data::ACCEPT, None);
    });
}

#[test]
fn the_structures_and_masks_of_older_versions_are_read() {
    check(
        "! -s 10.0.0.0/8 -i eth0 -p tcp -m tcp --dport 80 -m mark ! --mark 0x4000/0x4000 -j RETURN",
        |writer| {
            load_meta(writer, meta::INPUT_INTERFACE_NAME);
            compare(writer, operation(false), b"eth0\0\0\0\0\0\0\0\0\0\0\0\0");
            load_meta(writer, meta::L4_PROTOCOL);
            compare(writer, operation(false), &[6]);
            load_payload(writer, network(12, 4));
            mask(writer, &[255, 0, 0, 0]);
            compare(writer, operation(true), &[10, 0, 0, 0]);
            let ports = Structure::<16>::new().with(2, &[0xff; 2]).with(4, &80_u16.to_ne_bytes());
            matching(writer, extension("tcp", 0), ports.with(6, &80_u16.to_ne_bytes()).as_bytes());
            let mark = 0x4000_u32.to_ne_bytes();
            matching(
                writer,
                extension("mark", 1),
                Structure::<16>::new().with(0, &mark).with(4, &mark).with(8, &[1]).as_bytes(),
            );
            counter(writer);
            verdict(writer, data::RETURN, None);
        },
    );
}

#[test]
fn older_revisions_of_dnat_are_read() {
    for (revision, at) in [(0, 8), (1, 4)] {
        check("-j DNAT --to-destination 10.0.0.1:80", |writer| {
            counter(writer);
            let (one, flags, port) = (1_u32.to_ne_bytes(), 3_u32.to_ne_bytes(), 80_u16.to_be_bytes());
            let address = [10, 0, 0, 1];
            if revision == 0 {
                let info = Structure::<24>::new().with(0, &one).with(4, &flags).with(at, &address);
                let info = info.with(12, &address).with(16, &port).with(18, &port);
                target(writer, extension("DNAT", revision), info.as_bytes());
            } else {
                let info = Structure::<40>::new().with(0, &flags).with(at, &address).with(20, &address);
                target(writer, extension("DNAT", revision), info.with(36, &port).with(38, &port).as_bytes());
            }
        });
    }
}

#[test]
fn marks_that_are_set_by_expressions_are_read() {
    let set = |writer: &mut Writer| {
        put(writer, "meta", |writer| writer.numbers(&[(meta::KEY, meta::MARK), (meta::FROM, 1)]));
    };
    check("-j MARK --set-xmark 0x5/0xffffffff", |writer| {
        put(writer, "immediate", |writer| {
            writer.number(immediate::TO, 1);
            writer.nest(immediate::DATA, |writer| writer.bytes(data::VALUE, &5_u32.to_ne_bytes()));
        });
        set(writer);
    });
    check("-j MARK --set-xmark 0x4000/0x4000", |writer| {
        load_meta(writer, meta::MARK);
        put(writer, "bitwise", |writer| {
            writer.numbers(&[(bitwise::FROM, 1), (bitwise::TO, 1), (bitwise::LENGTH, 4)]);
            writer.nest(bitwise::MASK, |writer| writer.bytes(data::VALUE, &(!0x4000_u32).to_ne_bytes()));
            writer.nest(bitwise::XOR, |writer| writer.bytes(data::VALUE, &0x4000_u32.to_ne_bytes()));
        });
        set(writer);
    });
}

#[test]
fn a_comment_in_the_user_data_is_read() {
    let mut writer = Writer::new();
    writer.nest(rule::EXPRESSIONS, |writer| verdict(writer, data::JUMP, Some("KUBE-X")));
    writer.bytes(rule::USER_DATA, &user_data::with_comment(Some("a b")));
    assert_eq!(decoded(&writer, Family::Ip), "-m comment --comment \"a b\" -j KUBE-X");
}

/// Each differs from a known rule in one respect.
#[test]
fn what_is_nearly_a_known_rule_is_not_taken_for_it() {
    fn is_opaque(expressions: impl FnOnce(&mut Writer)) {
        let mut writer = Writer::new();
        writer.nest(rule::EXPRESSIONS, expressions);
        let text = decoded(&writer, Family::Ip);
        assert!(text.contains("--not-understood"), "{text}");
    }
    let ports = |offset, length| Payload { base: payload::TRANSPORT, offset, length };
    is_opaque(|writer| load_meta(writer, meta::MARK));
    is_opaque(|writer| compare(writer, operation(false), &[6]));
    is_opaque(|writer| {
        load_payload(writer, ports(2, 2));
        compare(writer, operation(false), &[0, 80]);
    });
    is_opaque(|writer| {
        load_payload(writer, network(12, 4));
        mask(writer, &[255, 0, 255, 0]);
        compare(writer, operation(false), &[10, 0, 1, 0]);
    });
    is_opaque(|writer| {
        load_payload(writer, network(12, 4));
        compare_range(writer, false, &[10, 0, 0, 1], &[10, 0, 0, 9]);
    });
    is_opaque(|writer| {
        load_payload(writer, network(8, 1));
        compare(writer, operation(false), &[64]);
    });
    is_opaque(|writer| {
        verdict(writer, data::ACCEPT, None);
        verdict(writer, data::DROP, None);
    });
    is_opaque(|writer| verdict(writer, data::JUMP, Some("ACCEPT")));
    is_opaque(|writer| verdict(writer, data::JUMP, Some("X -j ACCEPT")));
    is_opaque(|writer| matching(writer, extension("conntrack", 2), &[0; 160]));
    is_opaque(|writer| matching(writer, extension("conntrack", 3), &[0; 168]));
    is_opaque(|writer| {
        matching(writer, extension("set", 4), Structure::<48>::new().with(0, &[9, 0, 1, 0]).as_bytes());
    });
    is_opaque(|writer| {
        let limited = Structure::<8>::new().with(2, &[4]).with(4, &4_u32.to_ne_bytes());
        matching(writer, extension("addrtype", 1), limited.as_bytes());
    });
    is_opaque(|writer| matching(writer, extension("comment", 0), &[0xff; 256]));
    is_opaque(|writer| target(writer, extension("TPROXY", 1), &[0; 24]));
}

fn put(writer: &mut Writer, name: &str, body: impl FnOnce(&mut Writer)) {
    writer.nest(element::ITEM, |writer| {
        writer.text(expression::NAME, name);
        writer.nest(expression::DATA, body);
    });
}
