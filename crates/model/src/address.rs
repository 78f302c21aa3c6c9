//! Addresses, families, protocols and ports, and the tolerant text forms Kubernetes allows for them.
//!
//! Parsing here accepts what kube-proxy accepts, which is wider than `std::net`: IPv4 octets may carry leading
//! zeros (and stay decimal), an IPv4-mapped IPv6 address *is* IPv4, host bits of a CIDR are cleared.
//! Nothing here trims white space or guesses: a caller that must trim does so itself.

use std::cmp::Ordering;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// The two IP families; everything a proxy does exists once for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IpFamily {
    /// IPv4
    V4,
    /// IPv6
    V6,
}

impl IpFamily {
    /// Both families, IPv4 first.
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// The family of an address.
    pub fn of(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// The family of a CIDR block.
    pub fn of_net(net: &IpNet) -> Self {
        match net {
            IpNet::V4(_) => Self::V4,
            IpNet::V6(_) => Self::V6,
        }
    }

    /// The other family.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }

    /// The loopback address that stands for "unknown" where a node address is wanted.
    pub fn loopback(self) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Self::V6 => IpAddr::V6(Ipv6Addr::LOCALHOST),
        }
    }

    /// The block that holds every address of the family.
    pub fn everything(self) -> IpNet {
        match self {
            Self::V4 => IpNet::V4(Ipv4Net::default()),
            Self::V6 => IpNet::V6(Ipv6Net::default()),
        }
    }

    /// The block of one address alone.
    pub fn host_block(ip: IpAddr) -> IpNet {
        IpNet::from(ip)
    }
}

impl fmt::Display for IpFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// Zero, one or two of something: one for each family that has it. Dual-stack is data, not a second path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PerFamily<T> {
    /// The IPv4 value.
    pub v4: Option<T>,
    /// The IPv6 value.
    pub v6: Option<T>,
}

impl<T> Default for PerFamily<T> {
    fn default() -> Self {
        Self { v4: None, v6: None }
    }
}

impl<T> PerFamily<T> {
    /// The value of one family.
    pub fn get(&self, family: IpFamily) -> Option<&T> {
        match family {
            IpFamily::V4 => self.v4.as_ref(),
            IpFamily::V6 => self.v6.as_ref(),
        }
    }

    /// The place of one family.
    pub fn slot(&mut self, family: IpFamily) -> &mut Option<T> {
        match family {
            IpFamily::V4 => &mut self.v4,
            IpFamily::V6 => &mut self.v6,
        }
    }

    /// Puts a value in one family's place.
    pub fn set(&mut self, family: IpFamily, value: T) {
        *self.slot(family) = Some(value);
    }

    /// The families that have a value, with it, IPv4 first.
    pub fn iter(&self) -> impl Iterator<Item = (IpFamily, &T)> {
        IpFamily::BOTH.into_iter().filter_map(|family| self.get(family).map(|value| (family, value)))
    }

    /// The same families with other values.
    pub fn map<U>(self, mut change: impl FnMut(IpFamily, T) -> U) -> PerFamily<U> {
        PerFamily {
            v4: self.v4.map(|value| change(IpFamily::V4, value)),
            v6: self.v6.map(|value| change(IpFamily::V6, value)),
        }
    }

    /// Whether no family has a value.
    pub fn is_empty(&self) -> bool {
        self.v4.is_none() && self.v6.is_none()
    }
}

/// Transport protocols a Service port can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP
    Tcp,
    /// UDP
    Udp,
    /// SCTP
    Sctp,
}

impl Protocol {
    /// All protocols, in canonical order.
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Sctp];

    /// Reads the API's spelling; any other text is not a protocol of ours.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "TCP" => Some(Self::Tcp),
            "UDP" => Some(Self::Udp),
            "SCTP" => Some(Self::Sctp),
            _ => None,
        }
    }

    /// The number in packets.
    pub fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }

    /// The API's spelling.
    pub fn as_api(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }
}

impl fmt::Display for Protocol {
    /// Lower case, as the kernel's tools write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        })
    }
}

/// Reads an IP address the way Kubernetes components do; `None` for anything else.
pub fn parse_ip(text: &str) -> Option<IpAddr> {
    match text.find(['.', ':']).map(|at| text.as_bytes()[at]) {
        Some(b'.') => parse_ipv4(text).map(IpAddr::V4),
        Some(_) => parse_ipv6(text).map(unmapped),
        None => None,
    }
}

/// Ranges whose addresses mean something to each host by itself, so that no Service or endpoint can have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressRange {
    /// `0.0.0.0`, `::`
    Unspecified,
    /// `127.0.0.0/8`, `::1`
    Loopback,
    /// `169.254.0.0/16`, `fe80::/10`
    LinkLocal,
    /// `224.0.0.0/4`, `ff00::/8`
    Multicast,
    /// `255.255.255.255`
    Broadcast,
}

impl AddressRange {
    /// The range an address is in, if it is one of these.
    pub fn of(ip: IpAddr) -> Option<Self> {
        let is_link_local = match ip {
            IpAddr::V4(ip) => ip.is_link_local(),
            IpAddr::V6(ip) => ip.is_unicast_link_local(),
        };
        [
            (ip.is_unspecified(), Self::Unspecified),
            (ip.is_loopback(), Self::Loopback),
            (is_link_local, Self::LinkLocal),
            (ip.is_multicast(), Self::Multicast),
            (ip == IpAddr::V4(Ipv4Addr::BROADCAST), Self::Broadcast),
        ]
        .into_iter()
        .find_map(|(is_so, range)| is_so.then_some(range))
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unspecified => "the unspecified address",
            Self::Loopback => "a loopback address",
            Self::LinkLocal => "a link-local address",
            Self::Multicast => "a multicast address",
            Self::Broadcast => "the broadcast address",
        })
    }
}

/// Reads a CIDR block, clearing its host bits; `None` for anything else, a plain address included.
pub fn parse_cidr(text: &str) -> Option<IpNet> {
    let (address, length) = text.split_once('/')?;
    let length = parse_prefix_length(length)?;
    let net = match parse_ipv4(address) {
        Some(v4) => IpNet::V4(Ipv4Net::new(v4, length).ok()?),
        None => unmapped_block(Ipv6Net::new(parse_ipv6(address)?, length).ok()?),
    };
    Some(net.trunc())
}

/// Whether a block has prefix length zero: "everything", whatever its base address says.
pub fn is_zero_cidr(net: &IpNet) -> bool {
    net.prefix_len() == 0
}

/// Compares two addresses by the text of their endpoints (`10.0.1.10:80` before `10.0.1.1:80`).
///
/// This is kube-proxy's order of endpoints, which iptables rules and their probabilities show to the operator.
pub fn text_order(a: IpAddr, b: IpAddr) -> Ordering {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => ipv4_text(a).cmp(&ipv4_text(b)),
        _ => Text::of(a).as_bytes().cmp(Text::of(b).as_bytes()),
    }
}

/// The dotted quad with the `:` that follows it in an endpoint's text, padded with zero bytes.
fn ipv4_text(ip: Ipv4Addr) -> [u8; 16] {
    let mut text = [0; 16];
    let mut at = 0;
    for octet in ip.octets() {
        for (place, digit) in [(100, octet / 100), (10, octet / 10 % 10), (1, octet % 10)] {
            if octet >= place || place == 1 {
                text[at] = b'0' + digit;
                at += 1;
            }
        }
        text[at] = b'.';
        at += 1;
    }
    text[at - 1] = b':';
    text
}

/// An address's endpoint text on the stack: `1.2.3.4:` or `[fd00::1]:`.
struct Text {
    bytes: [u8; 48],
    length: usize,
}

impl Text {
    fn of(ip: IpAddr) -> Self {
        use std::io::Write;
        let mut bytes = [0; 48];
        let room = bytes.len();
        let mut rest = bytes.as_mut_slice();
        // 48 bytes hold the longest form there is, so the write cannot fail.
        let _ = match ip {
            IpAddr::V4(v4) => write!(rest, "{v4}:"),
            IpAddr::V6(v6) => write!(rest, "[{v6}]:"),
        };
        let length = room - rest.len();
        Self { bytes, length }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Four decimal fields; leading zeros are allowed and do not make a field octal.
fn parse_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0_u8; 4];
    let mut fields = text.split('.');
    for octet in &mut octets {
        *octet = u8::try_from(parse_decimal(fields.next()?, 255)?).ok()?;
    }
    fields.next().is_none().then(|| Ipv4Addr::from(octets))
}

/// RFC 4291 text; each group may carry extra leading zeros, the tail may be a dotted quad.
fn parse_ipv6(text: &str) -> Option<Ipv6Addr> {
    let (head, tail) = match text.split_once("::") {
        Some((head, tail)) => (parse_groups(head)?, Some(parse_groups(tail)?)),
        None => (parse_groups(text)?, None),
    };
    let mut groups = [0_u16; 8];
    match tail {
        None if head.len() == 8 => groups.copy_from_slice(&head),
        Some(tail) if head.len() + tail.len() <= 7 => {
            groups[..head.len()].copy_from_slice(&head);
            groups[8 - tail.len()..].copy_from_slice(&tail);
        }
        _ => return None,
    }
    Some(Ipv6Addr::from(groups))
}

/// The groups on one side of `::`; a dotted quad counts as two and may only come last.
fn parse_groups(text: &str) -> Option<Vec<u16>> {
    let mut groups = Vec::with_capacity(8);
    if text.is_empty() {
        return Some(groups);
    }
    let mut fields = text.split(':').peekable();
    while let Some(field) = fields.next() {
        if field.contains('.') && fields.peek().is_none() {
            let [a, b, c, d] = parse_ipv4(field)?.octets();
            groups.extend([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]);
        } else {
            groups.push(parse_hex_group(field)?);
        }
        if groups.len() > 8 {
            return None;
        }
    }
    Some(groups)
}

fn parse_hex_group(field: &str) -> Option<u16> {
    if field.is_empty() || !field.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let significant = field.trim_start_matches('0');
    if significant.is_empty() { Some(0) } else { u16::from_str_radix(significant, 16).ok() }
}

fn parse_prefix_length(text: &str) -> Option<u8> {
    u8::try_from(parse_decimal(text, 128)?).ok()
}

/// An unsigned decimal of any number of digits whose value is at most `limit`.
fn parse_decimal(text: &str, limit: u32) -> Option<u32> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut value = 0_u32;
    for digit in text.bytes() {
        value = value * 10 + u32::from(digit - b'0');
        if value > limit {
            return None;
        }
    }
    Some(value)
}

/// An IPv4-mapped IPv6 address is the IPv4 address, in every test and in print.
fn unmapped(ip: Ipv6Addr) -> IpAddr {
    ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4)
}

/// A block of IPv4-mapped addresses is the block of IPv4 addresses, as single addresses are.
fn unmapped_block(net: Ipv6Net) -> IpNet {
    let v4 = net.addr().to_ipv4_mapped().zip(net.prefix_len().checked_sub(96));
    let v4 = v4.and_then(|(address, length)| Ipv4Net::new(address, length).ok());
    v4.map_or(IpNet::V6(net), IpNet::V4)
}

#[cfg(test)]
mod tests;
