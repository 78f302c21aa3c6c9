//! The subscription to nf_tables notifications, which is paused while we commit very much ourselves.
//!
//! With a subscriber the kernel describes every object of a commit. That doubles the time of a large one, and what we wrote we know.
//! What other programs commit during a pause is not announced: whether they did shows in the generation, and then
//! [`NftWatch`](super::NftWatch) says that notifications were lost.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::constants::{BATCH_BEGIN, BATCH_END, FIXED, SUBSYSTEM, generation, kind, message};
use crate::netlink::{Membership, MessageHeader, NetlinkError, Protocol, Request, Socket, Writer, flags};

/// A subscription that can be paused. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Subscription(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// The groups of the sockets that are subscribed; none before watching begins.
    sockets: Vec<Membership>,
    missed: Option<Missed>,
}

/// What a pause cost.
#[derive(Debug)]
pub(super) enum Missed {
    /// Other programs committed.
    Commits,
    /// The groups could not be joined again.
    Everything(io::Error),
}

/// A pause of a subscription, until it is ended.
#[derive(Debug)]
#[must_use = "nothing is announced until the pause is ended"]
pub struct Pause {
    subscription: Subscription,
    socket: Socket,
    /// The generation that the pause began at.
    before: u32,
}

impl Subscription {
    /// From now on this is about other sockets.
    pub(super) fn set_sockets(&self, sockets: Vec<Membership>) {
        *self.state() = State { sockets, missed: None };
    }

    pub(super) fn take_missed(&self) -> Option<Missed> {
        self.state().missed.take()
    }

    /// Pauses. `None` if nothing is subscribed, or it cannot be paused: then all is announced as usual.
    pub fn pause(&self) -> Option<Pause> {
        if self.state().sockets.is_empty() {
            return None;
        }
        let mut socket = Socket::open(Protocol::Netfilter, &[]).ok()?;
        let before = read_generation(&mut socket).ok()?;
        // A commit counts before it is announced: this one is to be announced to the end.
        wait_for_ongoing_commit(&mut socket).ok()?;
        let pause = Pause { subscription: self.clone(), socket, before };
        let has_left = self.state().sockets.iter().try_for_each(Membership::leave).is_ok();
        if has_left {
            Some(pause)
        } else {
            pause.end(None);
            None
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of it is one that cannot fail half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pause {
    /// Subscribes again. If there were other commits than our own, which became this generation, the watch hears of it.
    pub fn end(mut self, committed: Option<u32>) {
        let joined = self.subscription.state().sockets.iter().try_for_each(Membership::join);
        let missed = match (joined, read_generation(&mut self.socket)) {
            (Err(error), _) => Missed::Everything(error),
            (Ok(()), Ok(now)) if self.is_all_ours(committed, now) => return,
            (Ok(()), Ok(_) | Err(_)) => Missed::Commits,
        };
        let mut state = self.subscription.state();
        state.missed = Some(missed);
        for watching in &state.sockets {
            // If it cannot be woken up, it finds out with the next notification.
            let _ = self.socket.wake(watching.portid());
        }
    }

    fn is_all_ours(&self, committed: Option<u32>, now: u32) -> bool {
        match committed {
            Some(committed) => now == committed && now == self.before.wrapping_add(1).max(1),
            None => now == self.before,
        }
    }
}

fn read_generation(socket: &mut Socket) -> Result<u32, NetlinkError> {
    let operation = "asking for the generation of nf_tables";
    let request = Request { operation, kind: kind(message::GET_GENERATION), body: &[0; 4] };
    socket.get(request, |message| message.attributes(FIXED).number(generation::ID))
}

/// Returns once the commit that another program is in the middle of is done and announced: a batch waits for its turn, also one
/// without content, which changes nothing.
pub(super) fn wait_for_ongoing_commit(socket: &mut Socket) -> Result<(), NetlinkError> {
    let [high, low] = SUBSYSTEM.to_be_bytes();
    let mut writer = Writer::new();
    for kind in [BATCH_BEGIN, BATCH_END] {
        let sequence = socket.reserve_sequences(1);
        let header = MessageHeader { kind, flags: flags::REQUEST, sequence };
        writer.message(header, |writer| writer.raw(&[0, 0, high, low]));
    }
    socket.send("waiting for a commit to end", writer.as_bytes())
}
