//! A netlink socket: requests with their replies, dumps, batches, notifications.
//!
//! Blocking with a time limit, except where it says otherwise. One socket does one thing at a time.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::{Message, MessageHeader, Messages, NetlinkError, Rejection, Writer, flags};
use crate::sys;

/// The kernel sends dumps in parts of at most 32 KiB; notifications may be larger.
const RECEIVE_BYTES: usize = 256 * 1024;
/// Room for a complete ruleset in one send; the kernel accounts more than the bytes themselves.
const SEND_BUFFER: usize = 64 * 1024 * 1024;
const RECEIVE_BUFFER: usize = 8 * 1024 * 1024;
const NETLINK_TIMEOUT: Duration = Duration::from_mins(1);
const DUMP_ATTEMPTS: u32 = 5;
/// The type of a message to be ignored.
const NOOP: u16 = 1;

/// The netlink protocol of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Addresses and links.
    Route,
    /// nf_tables and conntrack.
    Netfilter,
    /// Subsystems without a protocol of their own, such as IPVS.
    Generic,
}

/// A request with its body.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What we are doing, for errors.
    pub operation: &'static str,
    /// The message type.
    pub kind: u16,
    /// Everything behind the header.
    pub body: &'a [u8],
}

/// The result of a dump.
#[derive(Debug)]
pub struct Dump<T> {
    /// The decoded objects.
    pub items: Vec<T>,
    /// The objects changed during every attempt: some may be missing.
    pub interrupted: bool,
}

/// How a listing ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpEnd {
    /// It is complete.
    Whole,
    /// The objects changed meanwhile: some may be missing.
    Interrupted,
    /// The callback broke it off.
    Broken,
}

/// What a read without waiting found.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming {
    /// Messages were passed to the callback.
    Messages,
    /// There was nothing to read.
    Nothing,
    /// The receive buffer overflowed: messages were lost.
    Overrun,
}

/// A netlink socket.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    portid: u32,
    /// The multicast groups it has joined, as bits.
    groups: u32,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Socket {
    /// Opens a socket that has joined these multicast groups (numbers up to 32).
    pub fn open(protocol: Protocol, groups: &[u32]) -> Result<Self, NetlinkError> {
        let name = match protocol {
            Protocol::Route => "route",
            Protocol::Netfilter => "netfilter",
            Protocol::Generic => "generic",
        };
        Self::try_open(protocol, groups).map_err(|source| NetlinkError::Open { protocol: name, source })
    }

    fn try_open(protocol: Protocol, groups: &[u32]) -> io::Result<Self> {
        let number = match protocol {
            Protocol::Route => None,
            Protocol::Netfilter => Some(netlink::NETFILTER),
            Protocol::Generic => Some(netlink::GENERIC),
        };
        let fd = net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, number)?;
        let groups = as_bits(groups);
        net::bind(&fd, &SocketAddrNetlink::new(0, groups))?;
        let portid = SocketAddrNetlink::try_from(net::getsockname(&fd)?)?.pid();
        sys::enable_netlink_option(&fd, libc::NETLINK_EXT_ACK)?;
        sys::enable_netlink_option(&fd, libc::NETLINK_CAP_ACK)?;
        // Beyond the limit needs CAP_NET_ADMIN, which all but the listing of addresses needs anyway.
        sockopt::set_socket_recv_buffer_size_force(&fd, RECEIVE_BUFFER)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&fd, RECEIVE_BUFFER))?;
        sockopt::set_socket_send_buffer_size_force(&fd, SEND_BUFFER)
            .or_else(|_| sockopt::set_socket_send_buffer_size(&fd, SEND_BUFFER))?;
        sockopt::set_socket_timeout(&fd, Timeout::Recv, Some(NETLINK_TIMEOUT))?;
        sockopt::set_socket_timeout(&fd, Timeout::Send, Some(NETLINK_TIMEOUT))?;
        Ok(Self { fd, portid, groups, sequence: 0, buffer: vec![0; RECEIVE_BYTES] })
    }

    /// Opens a socket that has joined these groups and receives no other messages than those of one type.
    pub fn open_for_kind(protocol: Protocol, groups: &[u32], kind: u16) -> Result<Self, NetlinkError> {
        let mut socket = Self::open(protocol, &[])?;
        socket.groups = as_bits(groups);
        // First the filter: otherwise others may come in between.
        let subscribed = sys::receive_only_kind(&socket.fd, kind).and_then(|()| socket.membership()?.join());
        subscribed.map_err(|source| NetlinkError::Subscribe { source })?;
        Ok(socket)
    }

    /// The socket's groups, so that another thread can leave and join them.
    pub fn membership(&self) -> io::Result<Membership> {
        Ok(Membership { fd: self.fd.try_clone()?, portid: self.portid, groups: self.groups })
    }

    /// The socket's portid, by which the kernel names it as the cause of a notification.
    pub fn portid(&self) -> u32 {
        self.portid
    }

    /// Reserves sequence numbers and returns the first.
    pub fn reserve_sequences(&mut self, count: u32) -> u32 {
        let first = self.sequence.wrapping_add(1);
        self.sequence = self.sequence.wrapping_add(count);
        first
    }

    /// Sends a request and waits for its acknowledgement.
    pub fn request(&mut self, request: Request<'_>) -> Result<(), NetlinkError> {
        self.request_with(request, 0)
    }

    /// Like [`Self::request`], with further flags.
    pub fn request_with(&mut self, request: Request<'_>, more: u16) -> Result<(), NetlinkError> {
        let sequence = self.send_one(request, flags::REQUEST | flags::ACK | more)?;
        self.receive_until(request.operation, |message| {
            if message.sequence == sequence { message.acknowledgement() } else { None }
        })?
        .map_err(|rejection| NetlinkError::Rejected { operation: request.operation, rejection })
    }

    /// Requests one object, decoded from the reply.
    pub fn get<T>(
        &mut self,
        request: Request<'_>,
        decode: impl Fn(&Message<'_>) -> Option<T>,
    ) -> Result<T, NetlinkError> {
        let operation = request.operation;
        let sequence = self.send_one(request, flags::REQUEST)?;
        self.receive_until(operation, |message| match message.acknowledgement() {
            _ if message.sequence != sequence => None,
            Some(Err(rejection)) => Some(Err(NetlinkError::Rejected { operation, rejection })),
            Some(Ok(())) => None,
            None => Some(decode(message).ok_or(NetlinkError::Unreadable { operation })),
        })?
    }

    /// Lists objects; those for which the decoder returns `None` are left out.
    ///
    /// Retries when the kernel reports that the objects changed meanwhile, five attempts in all.
    pub fn dump<T>(
        &mut self,
        request: Request<'_>,
        mut decode: impl FnMut(&Message<'_>) -> Option<T>,
    ) -> Result<Dump<T>, NetlinkError> {
        let mut dump = self.dump_once(request, &mut decode)?;
        for _ in 1..DUMP_ATTEMPTS {
            if !dump.interrupted {
                break;
            }
            dump = self.dump_once(request, &mut decode)?;
        }
        Ok(dump)
    }

    /// Lists objects, or fails if they keep changing.
    pub fn dump_whole<T>(
        &mut self,
        request: Request<'_>,
        decode: impl FnMut(&Message<'_>) -> Option<T>,
    ) -> Result<Vec<T>, NetlinkError> {
        let dump = self.dump(request, decode)?;
        if dump.interrupted {
            let operation = request.operation;
            return Err(NetlinkError::Interrupted { operation, attempts: DUMP_ATTEMPTS });
        }
        Ok(dump.items)
    }

    /// Lists objects once, and passes each message to the callback until it breaks.
    ///
    /// A socket on which a listing was broken off cannot be used for another one.
    pub fn dump_each(
        &mut self,
        request: Request<'_>,
        mut each: impl FnMut(&Message<'_>) -> ControlFlow<()>,
    ) -> Result<DumpEnd, NetlinkError> {
        let sequence = self.send_one(request, flags::REQUEST | flags::DUMP)?;
        let mut end = DumpEnd::Whole;
        let ended = self.receive_until(request.operation, |message| {
            if message.sequence != sequence {
                return None;
            }
            if message.flags & flags::DUMP_INTERRUPTED != 0 {
                end = DumpEnd::Interrupted;
            }
            match message.acknowledgement() {
                Some(answer) => Some(answer.map(|()| end)),
                None if message.is_done() => Some(Ok(end)),
                None => each(message).is_break().then_some(Ok(DumpEnd::Broken)),
            }
        })?;
        ended.map_err(|rejection| NetlinkError::Rejected { operation: request.operation, rejection })
    }

    /// Makes room for a batch of this size, as far as that is permitted.
    pub fn reserve_send_buffer(&mut self, bytes: usize) {
        // The kernel doubles the value, for what it accounts beside the bytes.
        if bytes > SEND_BUFFER {
            let _ = sockopt::set_socket_send_buffer_size_force(&self.fd, bytes);
        }
    }

    /// Sends a batch of messages in one datagram.
    pub fn send(&mut self, operation: &'static str, bytes: &[u8]) -> Result<(), NetlinkError> {
        let kernel = SocketAddrNetlink::new(0, 0);
        let failed = |source| NetlinkError::Send { operation, bytes: bytes.len(), source };
        loop {
            match net::sendto(&self.fd, bytes, SendFlags::empty(), &kernel) {
                Ok(sent) if sent == bytes.len() => return Ok(()),
                Ok(_) => return Err(failed(io::ErrorKind::WriteZero.into())),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed(errno.into())),
            }
        }
    }

    /// Makes another socket of this protocol readable, with a message that says nothing. If its receive buffer is full, it is
    /// readable anyway.
    pub fn wake(&mut self, portid: u32) -> io::Result<()> {
        let mut writer = Writer::new();
        writer.message(MessageHeader { kind: NOOP, flags: 0, sequence: 0 }, |_| {});
        match net::sendto(
            &self.fd,
            writer.as_bytes(),
            SendFlags::DONTWAIT,
            &SocketAddrNetlink::new(portid, 0),
        ) {
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Passes what has arrived to the callback, without waiting.
    pub fn receive_now(&mut self, mut each: impl FnMut(&Message<'_>)) -> Result<Incoming, NetlinkError> {
        let operation = "reading netlink messages";
        loop {
            match net::recv(&self.fd, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((read, _)) => {
                    let datagram = self.buffer.get(..read).unwrap_or_default();
                    Messages::new(datagram).for_each(|message| each(&message));
                    return Ok(Incoming::Messages);
                }
                Err(Errno::AGAIN) => return Ok(Incoming::Nothing),
                Err(Errno::NOBUFS) => return Ok(Incoming::Overrun),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(NetlinkError::Receive { operation, source: errno.into() }),
            }
        }
    }

    /// Makes room for the answer to the next request: what is left in a receive buffer that was overrun answers none.
    fn discard_received(&mut self) -> Result<(), NetlinkError> {
        while self.receive_now(|_| {})? != Incoming::Nothing {}
        Ok(())
    }

    fn dump_once<T>(
        &mut self,
        request: Request<'_>,
        decode: &mut impl FnMut(&Message<'_>) -> Option<T>,
    ) -> Result<Dump<T>, NetlinkError> {
        let sequence = self.send_one(request, flags::REQUEST | flags::DUMP)?;
        let mut dump = Dump { items: Vec::new(), interrupted: false };
        self.receive_until(request.operation, |message| {
            if message.sequence != sequence {
                return None;
            }
            dump.interrupted |= message.flags & flags::DUMP_INTERRUPTED != 0;
            match message.acknowledgement() {
                Some(answer) => Some(answer),
                None if message.is_done() => Some(Ok(())),
                None => {
                    dump.items.extend(decode(message));
                    None
                }
            }
        })?
        .map(|()| dump)
        .map_err(|rejection: Rejection| NetlinkError::Rejected { operation: request.operation, rejection })
    }

    fn send_one(&mut self, request: Request<'_>, flags: u16) -> Result<u32, NetlinkError> {
        let sequence = self.reserve_sequences(1);
        let mut writer = Writer::new();
        writer.message(MessageHeader { kind: request.kind, flags, sequence }, |w| w.raw(request.body));
        self.send(request.operation, writer.as_bytes())?;
        Ok(sequence)
    }

    /// Reads messages until the callback returns something.
    pub(super) fn receive_until<T>(
        &mut self,
        operation: &'static str,
        mut done: impl FnMut(&Message<'_>) -> Option<T>,
    ) -> Result<T, NetlinkError> {
        loop {
            let read = match net::recv(&self.fd, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((read, _)) => read,
                Err(Errno::INTR) => continue,
                Err(errno) => {
                    if errno == Errno::NOBUFS {
                        self.discard_received()?;
                    }
                    return Err(NetlinkError::Receive { operation, source: errno.into() });
                }
            };
            let datagram = self.buffer.get(..read).unwrap_or_default();
            if let Some(result) = Messages::new(datagram).find_map(|message| done(&message)) {
                return Ok(result);
            }
        }
    }
}

/// The multicast groups of a socket.
#[derive(Debug)]
pub struct Membership {
    fd: OwnedFd,
    portid: u32,
    groups: u32,
}

impl Membership {
    /// The socket's portid.
    pub fn portid(&self) -> u32 {
        self.portid
    }

    /// Leaves all groups. What has arrived can still be read.
    pub fn leave(&self) -> io::Result<()> {
        self.bind(0)
    }

    /// Joins the groups again.
    pub fn join(&self) -> io::Result<()> {
        self.bind(self.groups)
    }

    /// A socket that is bound again under its own portid only changes its groups.
    fn bind(&self, groups: u32) -> io::Result<()> {
        Ok(net::bind(&self.fd, &SocketAddrNetlink::new(self.portid, groups))?)
    }
}

/// Groups are numbered from one.
fn as_bits(groups: &[u32]) -> u32 {
    groups.iter().fold(0, |bits, group| bits | 1_u32.wrapping_shl(group.wrapping_sub(1)))
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
