//! Packets of a story: `FROM  TO  OUTCOME`.

use ferrule_model::{Protocol, parse_ip};
use ferrule_plan::Packet;

/// Reads the packets one row is about: every source with every destination.
pub(super) fn packets(from: &str, to: &str) -> Result<Vec<Packet>, String> {
    let mut packets = Vec::new();
    for from in from.split(',').map(str::trim) {
        for to in to.split(',').map(str::trim) {
            packets.push(packet(from, to)?);
        }
    }
    Ok(packets)
}

/// `10.1.2.3 via cali7` → `10.96.0.10:80/udp`, `[fd00::1]:80`, or `10.96.0.10 icmp`.
fn packet(from: &str, to: &str) -> Result<Packet, String> {
    let (from, interface) = match from.split_once(" via ") {
        Some((from, interface)) => (from, Some(interface.trim().to_string())),
        None => (from, None),
    };
    let from = parse_ip(from.trim()).ok_or_else(|| format!("\"{from}\" is not an address"))?;
    let (to, port) = destination(to)?;
    Ok(Packet { from, interface, to, port })
}

fn destination(text: &str) -> Result<(std::net::IpAddr, Option<(Protocol, u16)>), String> {
    let address = |text: &str| parse_ip(text).ok_or_else(|| format!("\"{text}\" is not an address"));
    if let Some(ip) = text.strip_suffix(" icmp") {
        return Ok((address(ip.trim())?, None));
    }
    let (socket, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let (ip, port) =
        socket.rsplit_once(':').ok_or_else(|| format!("\"{text}\" should be ADDRESS:PORT[/PROTOCOL]"))?;
    let ip = ip.strip_prefix('[').and_then(|ip| ip.strip_suffix(']')).unwrap_or(ip);
    let protocol = Protocol::parse(&protocol.to_ascii_uppercase())
        .ok_or_else(|| format!("\"{protocol}\" is not a protocol"))?;
    let port = port.parse().map_err(|_| format!("\"{port}\" is not a port"))?;
    Ok((address(ip)?, Some((protocol, port))))
}

/// The outcome in canonical form, so that the order of endpoints and spaces does not matter.
pub(super) fn canonical(outcome: &str) -> String {
    let (deliveries, sticky) = match outcome.split_once(" sticky ") {
        Some((deliveries, seconds)) => (deliveries, format!(" sticky {}", seconds.trim())),
        None => (outcome, String::new()),
    };
    let mut deliveries: Vec<&str> = deliveries.split('|').map(str::trim).collect();
    deliveries.sort_unstable();
    deliveries.dedup();
    format!("{}{sticky}", deliveries.join(" | "))
}
