//! Prints a rule as `iptables-save` does, and spells what several options have in common.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::super::Block;
use super::{Match, Negatable, Target, Unknown, UnknownKind, XtRule};
use crate::nft::Family;

/// An option that neither we nor iptables parse: a rule with it can be deleted by its text, but not written.
pub(super) const NOT_UNDERSTOOD: &str = "--not-understood";

/// The protocols that have names without a look into `/etc/protocols`.
const PROTOCOLS: [(u8, &str); 11] = [
    (1, "icmp"),
    (6, "tcp"),
    (17, "udp"),
    (33, "dccp"),
    (47, "gre"),
    (50, "esp"),
    (51, "ah"),
    (58, "ipv6-icmp"),
    (132, "sctp"),
    (135, "ipv6-mh"),
    (136, "udplite"),
];

impl XtRule<'_> {
    /// Appends the text behind the name of the chain.
    pub fn print(&self, family: Family, out: &mut String) {
        let mut text = Separated { out, is_first: true };
        text.block(self.source, "-s");
        text.block(self.destination, "-d");
        text.interface(self.input.as_ref(), "-i");
        text.interface(self.output.as_ref(), "-o");
        if let Some(protocol) = self.protocol {
            text.condition(protocol.is_negated, "-p ");
            print_protocol(protocol.value, text.out);
        }
        for part in &self.matches {
            text.next();
            print_match(part, family, text.out);
        }
        if self.target != Target::None {
            text.next();
            print_target(&self.target, family, text.out);
        }
    }
}

/// A text of parts with spaces in between.
struct Separated<'o> {
    out: &'o mut String,
    is_first: bool,
}

impl Separated<'_> {
    fn next(&mut self) {
        if !std::mem::take(&mut self.is_first) {
            self.out.push(' ');
        }
    }

    fn condition(&mut self, is_negated: bool, option: &str) {
        self.next();
        self.out.push_str(if is_negated { "! " } else { "" });
        self.out.push_str(option);
    }

    fn block(&mut self, block: Option<Negatable<Block>>, option: &str) {
        if let Some(Negatable { is_negated, value }) = block {
            self.condition(is_negated, option);
            // Writing to memory does not fail.
            let _ = write!(self.out, " {value}");
        }
    }

    fn interface(&mut self, name: Option<&Negatable<Cow<'_, str>>>, option: &str) {
        if let Some(Negatable { is_negated, value }) = name {
            self.condition(*is_negated, option);
            self.out.push(' ');
            print_name(value, self.out);
        }
    }
}

fn print_match(part: &Match<'_>, family: Family, out: &mut String) {
    match (part.extension(), part) {
        (Some(extension), _) => extension.print(family, out),
        (None, Match::Unknown(unknown)) => print_unknown(unknown, out),
        (None, _) => {}
    }
}

fn print_target(target: &Target<'_>, family: Family, out: &mut String) {
    if let Some(extension) = target.extension() {
        return extension.print(family, out);
    }
    let (option, name) = match target {
        Target::Accept => ("-j ", "ACCEPT"),
        Target::Drop => ("-j ", "DROP"),
        Target::Return => ("-j ", "RETURN"),
        Target::Jump(chain) => ("-j ", &**chain),
        Target::Goto(chain) => ("-g ", &**chain),
        Target::Unknown(unknown) => return print_unknown(unknown, out),
        _ => return,
    };
    out.push_str(option);
    out.push_str(name);
}

fn print_unknown(unknown: &Unknown<'_>, out: &mut String) {
    let Unknown { name, kind, digest } = unknown;
    // Names of matches and targets are those of kernel modules, but this is another program's rule.
    let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).collect();
    // Writing to memory does not fail.
    let _ = match kind {
        UnknownKind::Match(revision) => {
            write!(out, "-m {name} {NOT_UNDERSTOOD} \"revision {revision}, {digest:016x}\"")
        }
        UnknownKind::Target(revision) => {
            write!(out, "-j {name} {NOT_UNDERSTOOD} \"revision {revision}, {digest:016x}\"")
        }
        UnknownKind::Expression => write!(out, "{NOT_UNDERSTOOD} \"{name}, {digest:016x}\""),
    };
}

/// A text, in quotes unless it is a plain word.
pub(super) fn print_text(text: &str, out: &mut String) {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !text.is_empty() && text.bytes().all(is_plain) {
        return out.push_str(text);
    }
    out.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\'' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
}

/// The name of an interface: without quotes, unless it could not be read otherwise.
pub(super) fn print_name(name: &str, out: &mut String) {
    let is_word = !name.contains(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '\\'));
    if is_word { out.push_str(name) } else { print_text(name, out) }
}

fn print_protocol(number: u8, out: &mut String) {
    match PROTOCOLS.iter().find(|(known, _)| *known == number) {
        Some((_, name)) => out.push_str(name),
        // Writing to memory does not fail.
        None => drop(write!(out, "{number}")),
    }
}

/// The number of a protocol's name or number; zero stands for all.
pub(super) fn protocol_number(text: &str) -> Option<u8> {
    match PROTOCOLS.iter().find(|(_, name)| *name == text) {
        Some((number, _)) => Some(*number),
        None if text == "all" => Some(0),
        None if text == "icmpv6" => Some(58),
        None => text.parse().ok(),
    }
}

/// The address in a field that has room for both families.
pub(super) fn address_of(bytes: &[u8; 16], family: Family) -> IpAddr {
    match family {
        Family::Ip => {
            let [first, second, third, fourth, ..] = *bytes;
            Ipv4Addr::new(first, second, third, fourth).into()
        }
        Family::Ip6 => Ipv6Addr::from(*bytes).into(),
    }
}

/// An address in such a field.
pub(super) fn address_bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&address.octets());
            bytes
        }
        IpAddr::V6(address) => address.octets(),
    }
}

pub(super) fn print_address(bytes: &[u8; 16], family: Family, out: &mut String) {
    // Writing to memory does not fail.
    let _ = write!(out, "{}", address_of(bytes, family));
}
