//! Sends a batch and reads what became of it.

use super::batch::Batch;
use crate::netlink::{Incoming, NetlinkError, Rejection, Socket};

/// The kernel's error code for a batch whose expected generation is outdated.
const ERESTART: i32 = 85;

/// A chain of ours that carries a stamp, the digest that says which plan the rules hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampedChain {
    /// Its table.
    pub table: &'static str,
    /// Its name. Nothing may jump to it, and it has no rules.
    pub chain: &'static str,
}

/// What became of a batch.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Everything was done.
    Committed,
    /// Another program has changed rules meanwhile; nothing was done.
    Outdated,
    /// The kernel rejected a line, or the batch as a whole; nothing was done.
    Rejected { line: Option<usize>, rejection: Rejection },
}

/// The kernel processes a batch while it is being sent: when that returns, every reply has arrived.
pub(super) fn commit(
    socket: &mut Socket,
    batch: &Batch,
    operation: &'static str,
) -> Result<Outcome, NetlinkError> {
    socket.reserve_send_buffer(batch.as_bytes().len());
    socket.send(operation, batch.as_bytes())?;
    let mut first_rejection: Option<(u32, Rejection)> = None;
    let mut is_accepted = false;
    loop {
        let incoming = socket.receive_now(|message| match message.acknowledgement() {
            Some(Ok(())) => is_accepted |= message.sequence == batch.last_sequence(),
            Some(Err(rejection)) if first_rejection.is_none() => {
                first_rejection = Some((message.sequence, rejection));
            }
            Some(Err(_)) | None => {}
        })?;
        // After one failure many later messages fail as well, and not all of those errors may fit.
        match incoming {
            Incoming::Messages | Incoming::Overrun => {}
            Incoming::Nothing => break,
        }
    }
    match first_rejection {
        Some((_, rejection)) if rejection.errno == ERESTART => Ok(Outcome::Outdated),
        Some((sequence, rejection)) => Ok(Outcome::Rejected { line: batch.line(sequence), rejection }),
        None if is_accepted => Ok(Outcome::Committed),
        None => Err(NetlinkError::Unreadable { operation }),
    }
}
