//! Existing flows of a story: `FLOW  ANSWERED BY  THEN`, where the last is `keep` or `delete`.

use std::net::SocketAddr;

use ferrule_model::Protocol;
use ferrule_plan::Flow;

/// Reads `10.96.0.53:53/udp`, or `udp 10.96.0.53:53`, and `10.244.1.53:53`.
pub(super) fn flow(to: &str, answered_by: &str) -> Result<Flow, String> {
    let parts = to.split_once(' ').or_else(|| to.rsplit_once('/').map(|(to, protocol)| (protocol, to)));
    let (protocol, to) = parts.ok_or_else(|| format!("\"{to}\" should be ADDRESS:PORT/PROTOCOL"))?;
    let protocol = Protocol::parse(&protocol.to_ascii_uppercase())
        .ok_or_else(|| format!("\"{protocol}\" is not a protocol"))?;
    Ok(Flow { protocol, to: socket(to)?, answered_by: socket(answered_by)?, is_attempt: false })
}

fn socket(text: &str) -> Result<SocketAddr, String> {
    text.trim().parse().map_err(|_| format!("\"{text}\" should be ADDRESS:PORT"))
}
