//! A netlink socket: one request and its answer, listings, batches, events.
//!
//! Blocking with a time limit, except where it says otherwise. One socket does one thing at a time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::{Message, MessageHeader, Messages, NetlinkError, Refusal, Writer, flags};
use crate::sys;

/// Answers come in parts of at most 32 KiB; events may be larger.
const RECEIVE_BYTES: usize = 256 * 1024;
/// Room for a whole load in one send; the kernel accounts more than the bytes themselves.
const SEND_BUFFER: usize = 64 * 1024 * 1024;
const RECEIVE_BUFFER: usize = 8 * 1024 * 1024;
const PATIENCE: Duration = Duration::from_mins(1);
const DUMP_ATTEMPTS: u32 = 5;

/// Which part of the kernel is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Addresses and links.
    Route,
    /// nf_tables and conntrack.
    Netfilter,
    /// Everything that has no protocol of its own.
    Generic,
}

/// A question.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What we are doing, for errors.
    pub operation: &'static str,
    /// The kind of the request.
    pub kind: u16,
    /// Its body.
    pub body: &'a [u8],
}

/// A list of objects.
#[derive(Debug)]
pub struct Dump<T> {
    /// The objects.
    pub items: Vec<T>,
    /// The objects changed while they were listed, as often as we tried: some may be missing.
    pub interrupted: bool,
}

/// What a listening socket got.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming {
    /// Messages were handed over.
    Messages,
    /// There was nothing to read.
    Nothing,
    /// More came than fitted: something was missed.
    Overrun,
}

/// A netlink socket.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    port: u32,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Socket {
    /// A socket that listens to these multicast groups (numbers up to 32), or none.
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
        let mask = groups.iter().fold(0, |mask, group| mask | 1_u32.wrapping_shl(group.wrapping_sub(1)));
        net::bind(&fd, &SocketAddrNetlink::new(0, mask))?;
        let port = SocketAddrNetlink::try_from(net::getsockname(&fd)?)?.pid();
        sys::enable_netlink_option(&fd, libc::NETLINK_EXT_ACK)?;
        sys::enable_netlink_option(&fd, libc::NETLINK_CAP_ACK)?;
        // Beyond the limit needs CAP_NET_ADMIN, which all but the listing of addresses needs anyway.
        sockopt::set_socket_recv_buffer_size_force(&fd, RECEIVE_BUFFER)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&fd, RECEIVE_BUFFER))?;
        sockopt::set_socket_send_buffer_size_force(&fd, SEND_BUFFER)
            .or_else(|_| sockopt::set_socket_send_buffer_size(&fd, SEND_BUFFER))?;
        sockopt::set_socket_timeout(&fd, Timeout::Recv, Some(PATIENCE))?;
        sockopt::set_socket_timeout(&fd, Timeout::Send, Some(PATIENCE))?;
        Ok(Self { fd, port, sequence: 0, buffer: vec![0; RECEIVE_BYTES] })
    }

    /// The socket's address, by which the kernel names it as the cause of an event.
    pub fn port(&self) -> u32 {
        self.port
    }

    /// A run of sequence numbers, of which the first is returned.
    pub fn take_sequences(&mut self, count: u32) -> u32 {
        let first = self.sequence.wrapping_add(1);
        self.sequence = self.sequence.wrapping_add(count);
        first
    }

    /// Asks for something to be done and waits until it is.
    pub fn request(&mut self, request: Request<'_>) -> Result<(), NetlinkError> {
        self.request_with(request, 0)
    }

    /// The same, with further flags.
    pub fn request_with(&mut self, request: Request<'_>, more: u16) -> Result<(), NetlinkError> {
        let sequence = self.send_one(request, flags::REQUEST | flags::ACK | more)?;
        self.receive_until(request.operation, |message| {
            if message.sequence == sequence { message.answer() } else { None }
        })?
        .map_err(|refusal| NetlinkError::Refused { operation: request.operation, refusal })
    }

    /// Asks for one object; the decoder makes it of the answer's body.
    pub fn get<T>(
        &mut self,
        request: Request<'_>,
        decode: impl Fn(&Message<'_>) -> Option<T>,
    ) -> Result<T, NetlinkError> {
        let operation = request.operation;
        let sequence = self.send_one(request, flags::REQUEST)?;
        self.receive_until(operation, |message| match message.answer() {
            _ if message.sequence != sequence => None,
            Some(Err(refusal)) => Some(Err(NetlinkError::Refused { operation, refusal })),
            Some(Ok(())) => None,
            None => Some(decode(message).ok_or(NetlinkError::Unreadable { operation })),
        })?
    }

    /// Lists objects. What the decoder does not return is left out.
    ///
    /// If the objects change meanwhile the kernel says so, and we start again, up to five times in all.
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

    /// Sends many messages at once.
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

    /// Hands over what is there, without waiting.
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
            match message.answer() {
                Some(answer) => Some(answer),
                None if message.is_done() => Some(Ok(())),
                None => {
                    dump.items.extend(decode(message));
                    None
                }
            }
        })?
        .map(|()| dump)
        .map_err(|refusal: Refusal| NetlinkError::Refused { operation: request.operation, refusal })
    }

    fn send_one(&mut self, request: Request<'_>, flags: u16) -> Result<u32, NetlinkError> {
        let sequence = self.take_sequences(1);
        let mut writer = Writer::new();
        writer.message(MessageHeader { kind: request.kind, flags, sequence }, |w| w.raw(request.body));
        self.send(request.operation, writer.as_bytes())?;
        Ok(sequence)
    }

    /// Reads messages until one settles the matter.
    fn receive_until<T>(
        &mut self,
        operation: &'static str,
        mut settle: impl FnMut(&Message<'_>) -> Option<T>,
    ) -> Result<T, NetlinkError> {
        loop {
            let read = match net::recv(&self.fd, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((read, _)) => read,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(NetlinkError::Receive { operation, source: errno.into() }),
            };
            let datagram = self.buffer.get(..read).unwrap_or_default();
            if let Some(settled) = Messages::new(datagram).find_map(|message| settle(&message)) {
                return Ok(settled);
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
