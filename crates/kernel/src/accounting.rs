//! Named packet counters that rules can count into (`nfnetlink_acct`).

use rustix::io::Errno;

use crate::netlink::{Message, NetlinkError, Protocol, Request, Socket, Writer, flags};

/// The subsystem's number, in the upper half of a message's kind.
const SUBSYSTEM: u16 = 7 << 8;
const NEW: u16 = SUBSYSTEM;
const GET: u16 = SUBSYSTEM | 1;
const NAME: u16 = 1;
const PACKETS: u16 = 2;
/// Family, version, resource.
const FIXED: [u8; 4] = [0; 4];

/// Makes sure that there is a counter of this name.
pub fn ensure(name: &str) -> Result<(), NetlinkError> {
    if packets(name)?.is_some() {
        return Ok(());
    }
    let body = body(name);
    let request = Request { operation: "making a packet counter", kind: NEW, body: body.as_bytes() };
    Socket::open(Protocol::Netfilter, &[])?.request_with(request, flags::CREATE)
}

/// How many packets a counter has seen, if it is there.
pub fn packets(name: &str) -> Result<Option<u64>, NetlinkError> {
    let body = body(name);
    let request = Request { operation: "reading a packet counter", kind: GET, body: body.as_bytes() };
    let count = |message: &Message<'_>| message.attributes(FIXED.len()).get(PACKETS)?.long();
    match Socket::open(Protocol::Netfilter, &[])?.get(request, count) {
        Ok(packets) => Ok(Some(packets)),
        Err(NetlinkError::Refused { refusal, .. }) if refusal.is(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

fn body(name: &str) -> Writer {
    let mut writer = Writer::new();
    writer.raw(&FIXED);
    writer.text(NAME, name);
    writer
}
