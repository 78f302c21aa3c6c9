//! nf_tables notifications: which objects a commit changed, and which process committed it.
//!
//! Only decodes them. A commit arrives as one notification for each object and ends with
//! [`NftChange::Generation`], which names the process. Where there are more than fit into the receive buffer, some are lost; a
//! socket of its own for the ends of commits still says who committed.

use std::os::fd::{AsFd, BorrowedFd};

use super::constants::{
    FIXED, GROUP, SUBSYSTEM, chain, element, flowtable, generation, kind, message, object, rule, set, table,
};
use super::subscription::{Missed, Subscription, wait_for_ongoing_commit};
use super::{Family, Name};
use crate::netlink::{Incoming, Message, NetlinkError, Protocol, Socket, flags};

/// One notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NftNotification {
    /// The family, if it is IPv4 or IPv6.
    pub family: Option<Family>,
    /// The table; a generation has none.
    pub table: Option<Name>,
    /// The netlink portid of the committing socket: [`NftReader::portid`](crate::port::NftReader::portid) for our own.
    pub portid: u32,
    /// Whether the object was removed, not written.
    pub removed: bool,
    /// The object.
    pub change: NftChange,
}

/// The object that a notification is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NftChange {
    /// The table itself.
    Table,
    /// A set or map.
    Set(Name),
    /// Elements of a set or map.
    Elements(Name),
    /// A chain.
    Chain(Name),
    /// A chain that was there before, maybe under another name, which the kernel does not say. Kernels before 5.15 do not tell
    /// this from a new one.
    ExistingChain(Name),
    /// A rule of a chain.
    Rule(Name),
    /// An object of another kind.
    Other,
    /// End of a commit: all notifications since the last one of this kind belong to it.
    Generation {
        /// The generation that the commit created.
        id: u32,
        /// The thread id of the committer, which is the process id of a single-threaded program.
        process: Option<u32>,
        /// The thread's name.
        process_name: Option<String>,
    },
}

/// What arrived since the last read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NftNotifications {
    /// All notifications, maybe none.
    Received(Vec<NftNotification>),
    /// Some were lost: anything may have changed. These commits have ended since the last read, as far as it is known.
    Lost(Vec<NftNotification>),
}

/// Receives the notifications of all tables.
#[derive(Debug)]
pub struct NftWatch {
    socket: Socket,
    /// Receives only the ends of commits, which it has room for even if the other socket overflows.
    ends: Socket,
    /// Read from it, and not from the other socket yet.
    ended: Vec<NftNotification>,
    /// The last generation whose notifications were all received.
    generation: Option<u32>,
    subscription: Subscription,
}

/// One read returns not many more notifications than this: another program may remove 100,000 rules at once.
const MAX_NOTIFICATIONS: usize = 4096;

impl NftWatch {
    /// Receives everything that is committed from now on.
    pub fn open() -> Result<Self, NetlinkError> {
        Self::open_pausable(&Subscription::default())
    }

    /// The same, with pauses.
    pub fn open_pausable(subscription: &Subscription) -> Result<Self, NetlinkError> {
        let ended = kind(message::NEW_GENERATION);
        let ends = Socket::open_for_kind(Protocol::Netfilter, &[GROUP], ended)?;
        let socket = Socket::open(Protocol::Netfilter, &[GROUP])?;
        let sockets = [&socket, &ends].map(Socket::membership).into_iter().collect::<Result<_, _>>();
        subscription.set_sockets(sockets.map_err(|source| NetlinkError::Subscribe { source })?);
        let subscription = subscription.clone();
        Ok(Self { socket, ends, ended: Vec::new(), generation: None, subscription })
    }

    /// What arrived since the last read, without waiting. To wait, poll the descriptor ([`AsFd`]) for reading.
    pub fn read(&mut self) -> Result<NftNotifications, NetlinkError> {
        let (mut received, mut is_overrun) = (Vec::new(), false);
        loop {
            match self.socket.receive_now(|message| received.extend(notification(message)))? {
                Incoming::Messages if is_overrun => received.clear(),
                Incoming::Messages if received.len() < MAX_NOTIFICATIONS => {}
                Incoming::Messages | Incoming::Nothing => break,
                Incoming::Overrun => is_overrun = true,
            }
        }
        match self.subscription.take_missed() {
            Some(Missed::Everything(source)) => return Err(NetlinkError::Subscribe { source }),
            Some(Missed::Commits) => is_overrun = true,
            None => {}
        }
        if is_overrun {
            return Ok(NftNotifications::Lost(self.lost_commits()?));
        }
        self.note_ends(&received)?;
        Ok(NftNotifications::Received(received))
    }

    /// The commits that the lost notifications may belong to.
    fn lost_commits(&mut self) -> Result<Vec<NftNotification>, NetlinkError> {
        // The last of them may not have come to its end, which names the program.
        wait_for_ongoing_commit(&mut self.ends)?;
        self.read_ends()?;
        let lost = std::mem::take(&mut self.ended);
        self.generation = lost.last().and_then(NftNotification::generation).or(self.generation);
        Ok(lost)
    }

    /// Forgets the ends of commits that were received as a whole.
    fn note_ends(&mut self, received: &[NftNotification]) -> Result<(), NetlinkError> {
        self.generation = received.iter().rev().find_map(NftNotification::generation).or(self.generation);
        self.read_ends()
    }

    fn read_ends(&mut self) -> Result<(), NetlinkError> {
        let ended = &mut self.ended;
        while self.ends.receive_now(|message| ended.extend(notification(message)))? != Incoming::Nothing {}
        let Some(known) = self.generation else { return Ok(()) };
        // Numbers start again from the beginning one day.
        let is_later = |id: u32| id.wrapping_sub(known).cast_signed() > 0;
        ended.retain(|end| end.generation().is_some_and(is_later));
        Ok(())
    }
}

impl NftNotification {
    /// The generation, if this is the end of a commit.
    pub fn generation(&self) -> Option<u32> {
        match self.change {
            NftChange::Generation { id, .. } => Some(id),
            _ => None,
        }
    }
}

impl AsFd for NftWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Decodes a message; `None` if it is no notification of nf_tables.
pub fn notification(message: &Message<'_>) -> Option<NftNotification> {
    let [high, kind] = message.kind.to_be_bytes();
    if u16::from(high) != SUBSYSTEM {
        return None;
    }
    let attributes = message.attributes(FIXED);
    let named = |attribute| attributes.text(attribute).map(Name::new);
    let (removed, change) = match u16::from(kind) {
        message::NEW_TABLE => (false, NftChange::Table),
        message::DELETE_TABLE => (true, NftChange::Table),
        message::NEW_SET => (false, NftChange::Set(named(set::NAME)?)),
        message::DELETE_SET => (true, NftChange::Set(named(set::NAME)?)),
        message::NEW_ELEMENTS => (false, NftChange::Elements(named(element::SET)?)),
        message::DELETE_ELEMENTS => (true, NftChange::Elements(named(element::SET)?)),
        message::NEW_CHAIN if message.flags & (flags::CREATE | flags::EXCLUSIVE) == 0 => {
            (false, NftChange::ExistingChain(named(chain::NAME)?))
        }
        message::NEW_CHAIN => (false, NftChange::Chain(named(chain::NAME)?)),
        message::DELETE_CHAIN => (true, NftChange::Chain(named(chain::NAME)?)),
        message::NEW_RULE => (false, NftChange::Rule(named(rule::CHAIN)?)),
        message::DELETE_RULE => (true, NftChange::Rule(named(rule::CHAIN)?)),
        message::NEW_OBJECT | message::NEW_FLOWTABLE => (false, NftChange::Other),
        message::DELETE_OBJECT | message::DELETE_FLOWTABLE => (true, NftChange::Other),
        message::NEW_GENERATION => (false, committed(message)?),
        _ => return None,
    };
    // The first attribute of every object is its table, or the table's own name.
    let table = if matches!(change, NftChange::Generation { .. }) { None } else { named(table::NAME) };
    Some(NftNotification { family: family(message), table, portid: message.portid, removed, change })
}

fn committed(message: &Message<'_>) -> Option<NftChange> {
    let attributes = message.attributes(FIXED);
    Some(NftChange::Generation {
        id: attributes.number(generation::ID)?,
        process: attributes.number(generation::PROCESS),
        process_name: attributes.text(generation::PROCESS_NAME).map(str::to_owned),
    })
}

fn family(message: &Message<'_>) -> Option<Family> {
    let number = *message.body.first()?;
    [Family::Ip, Family::Ip6].into_iter().find(|family| family.number() == number)
}

const _: () = assert!(
    object::TABLE == table::NAME && flowtable::TABLE == table::NAME,
    "the table is the first attribute of every object"
);
