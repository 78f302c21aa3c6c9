//! The program's own netlink sockets, borrowed from it while it runs, to make their buffers as small as the kernel allows.

use std::fs;
use std::os::fd::OwnedFd;

use rustix::net::{SendFlags, send, sockopt};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::stand::until;
use crate::victim::Victim;

/// What the kernel makes of a wish for nothing.
const SMALLEST: usize = 1;
/// More than the program asks for.
const LARGE: usize = 128 << 20;

/// Which sockets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Netlink {
    /// Those that listen to changes of rules.
    RuleWatch,
    /// Those that listen to changes of addresses.
    AddressWatch,
    /// Those that write rules.
    RuleWriter,
}

impl Netlink {
    /// The protocol's number, and whether the socket listens to groups.
    fn kind(self) -> (&'static str, bool) {
        match self {
            Self::RuleWatch => ("12", true),
            Self::AddressWatch => ("0", true),
            Self::RuleWriter => ("12", false),
        }
    }
}

/// Sockets of the program.
pub struct Borrowed {
    sockets: Vec<OwnedFd>,
    process: u32,
    kind: Netlink,
}

impl Borrowed {
    /// The program's sockets of a kind, as soon as it has any.
    pub fn from(victim: &Victim, wanted: Netlink) -> Self {
        until(|| (!listed(victim.program.id(), wanted).is_empty()).then_some(()));
        let process = i32::try_from(victim.program.id()).ok().and_then(Pid::from_raw).expect("a process");
        let handle = pidfd_open(process, PidfdFlags::empty()).expect("a handle of the process");
        let inodes: Vec<String> =
            listed(victim.program.id(), wanted).into_iter().map(|socket| socket.inode).collect();
        let descriptors = fs::read_dir(format!("/proc/{}/fd", victim.program.id())).expect("its descriptors");
        let borrowed = descriptors.filter_map(|descriptor| {
            let path = descriptor.ok()?.path();
            let target = fs::read_link(&path).ok()?.to_string_lossy().into_owned();
            let inode = target.strip_prefix("socket:[")?.strip_suffix(']')?;
            let number = path.file_name()?.to_str()?.parse().ok()?;
            inodes.iter().any(|known| known == inode).then(|| {
                pidfd_getfd(&handle, number, PidfdGetfdFlags::empty()).expect("a copy of its descriptor")
            })
        });
        let borrowed: Vec<OwnedFd> = borrowed.collect();
        assert!(!borrowed.is_empty(), "it has no such socket");
        Self { sockets: borrowed, process: victim.program.id(), kind: wanted }
    }

    /// Leaves room for hardly one message to be received.
    pub fn shrink_receive_buffers(&self) {
        for socket in &self.sockets {
            sockopt::set_socket_recv_buffer_size(socket, SMALLEST).expect("a small buffer");
        }
    }

    /// Asks the kernel, as if the program did, for more answers than there is room for.
    pub fn fill_receive_buffers(&self) {
        const LENGTH: u32 = 16;
        const NO_OPERATION: u16 = 1;
        const REQUEST_AND_ACK: u16 = 1 | 4;
        let mut request = LENGTH.to_ne_bytes().to_vec();
        request.extend(NO_OPERATION.to_ne_bytes());
        request.extend(REQUEST_AND_ACK.to_ne_bytes());
        // Sequence number and portid.
        request.extend([0; 8]);
        for socket in &self.sockets {
            send(socket, &request.repeat(100), SendFlags::empty()).expect("requests");
        }
    }

    /// Leaves room for hardly one message to be sent.
    pub fn shrink_send_buffers(&self) {
        for socket in &self.sockets {
            sockopt::set_socket_send_buffer_size(socket, SMALLEST).expect("a small buffer");
        }
    }

    /// Makes all the room there ever was.
    pub fn grow_buffers(&self) {
        for socket in &self.sockets {
            sockopt::set_socket_recv_buffer_size_force(socket, LARGE).expect("a large buffer");
            sockopt::set_socket_send_buffer_size_force(socket, LARGE).expect("a large buffer");
        }
    }

    /// Whether the kernel had no room for some message.
    pub fn were_overrun(&self) -> Result<(), String> {
        let drops: u32 = listed(self.process, self.kind).iter().map(|socket| socket.drops).sum();
        if drops > 0 { Ok(()) } else { Err("nothing was dropped: the attack failed".into()) }
    }
}

struct Listed {
    inode: String,
    drops: u32,
}

/// The kernel's list has a line for each socket: address, protocol, portid, groups, …, drops, inode.
fn listed(process: u32, wanted: Netlink) -> Vec<Listed> {
    let (protocol, listens) = wanted.kind();
    let list = fs::read_to_string(format!("/proc/{process}/net/netlink")).expect("a list of sockets");
    let socket = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_wanted = *fields.get(1)? == protocol && (*fields.get(3)? != "00000000") == listens;
        let [.., drops, inode] = fields.as_slice() else { return None };
        let drops = drops.parse().ok()?;
        is_wanted.then(|| Listed { inode: (*inode).to_owned(), drops })
    };
    list.lines().filter_map(socket).collect()
}
