//! Named packet counters that iptables rules can use (`nfnetlink_acct`).

use rustix::io::Errno;

use crate::netlink::{Message, NetlinkError, Protocol, Request, Socket, Writer, flags};

/// The subsystem number is the upper byte of the message type.
const SUBSYSTEM: u16 = 7 << 8;
const NEW: u16 = SUBSYSTEM;
const GET: u16 = SUBSYSTEM | 1;
const NAME: u16 = 1;
const PACKETS: u16 = 2;
/// Family, version, resource.
const FIXED: [u8; 4] = [0; 4];

/// Creates the counter unless it exists.
pub fn ensure(name: &str) -> Result<(), NetlinkError> {
    if packets(name)?.is_some() {
        return Ok(());
    }
    let body = body(name);
    let request = Request { operation: "creating a packet counter", kind: NEW, body: body.as_bytes() };
    Socket::open(Protocol::Netfilter, &[])?.request_with(request, flags::CREATE)
}

/// The packets that a counter has counted, or `None` if it does not exist.
pub fn packets(name: &str) -> Result<Option<u64>, NetlinkError> {
    let body = body(name);
    let request = Request { operation: "reading a packet counter", kind: GET, body: body.as_bytes() };
    let count = |message: &Message<'_>| message.attributes(FIXED.len()).get(PACKETS)?.long();
    match Socket::open(Protocol::Netfilter, &[])?.get(request, count) {
        Ok(packets) => Ok(Some(packets)),
        Err(NetlinkError::Rejected { rejection, .. }) if rejection.is(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

fn body(name: &str) -> Writer {
    let mut writer = Writer::new();
    writer.raw(&FIXED);
    writer.text(NAME, name);
    writer
}
