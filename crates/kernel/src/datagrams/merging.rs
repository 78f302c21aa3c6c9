//! Which datagrams go through the kernel as one message.

use std::io;
use std::os::fd::AsFd;

use super::{MAX_DATAGRAMS, Outgoing, SendSlot};
use crate::sys;

/// Datagrams in one message, as older kernels limit them.
const MAX_SEGMENTS: usize = 64;
/// Bytes in one message, with some room for headers.
const MAX_MERGED: usize = 65_000;

/// Whether datagrams of one size to one peer are passed to the kernel as one message. A kernel or a path that cannot do that turns
/// it off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merging(bool);

impl Default for Merging {
    fn default() -> Self {
        Self(true)
    }
}

impl Merging {
    /// Each datagram is a message.
    pub const OFF: Self = Self(false);

    /// Whether it was not turned off.
    pub fn is_on(self) -> bool {
        self.0
    }
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Datagrams, however they were passed to the kernel.
    pub datagrams: usize,
    /// Bytes of all of them.
    pub bytes: usize,
}

impl<'a> Outgoing<'a> {
    /// How many datagrams it is.
    pub fn count(&self) -> usize {
        // One that is empty is one.
        self.payload.len().div_ceil(self.segment.max(1)).max(1)
    }

    /// The same, one by one.
    fn split(self) -> impl Iterator<Item = Outgoing<'a>> {
        let size = self.segment.max(1);
        let empty = self.payload.is_empty().then_some(self);
        let parts = self.payload.chunks(size);
        empty.into_iter().chain(parts.map(move |payload| Outgoing {
            payload,
            segment: payload.len(),
            ..self
        }))
    }
}

/// Sends datagrams without waiting, at most [`MAX_DATAGRAMS`] of them, some of which may be several. Returns what was sent; an error
/// is that of the first.
pub fn send(socket: impl AsFd, datagrams: &[Outgoing<'_>], merging: &mut Merging) -> io::Result<Sent> {
    let socket = socket.as_fd();
    let datagrams = datagrams.get(..MAX_DATAGRAMS).unwrap_or(datagrams);
    let mut sent = Sent::default();
    let mut rest = datagrams;
    if merging.is_on() {
        let groups = grouped(rest);
        match send_all(socket, &groups, &mut sent) {
            Err((unsent, error)) if is_about_merging(&error) && is_merged(groups.get(unsent)) => {
                merging.0 = false;
                let done: usize = groups.iter().take(unsent).map(|group| group.len()).sum();
                rest = rest.get(done..).unwrap_or_default();
            }
            result => return finished(sent, result),
        }
    }
    let single: Vec<Outgoing<'_>> = rest.iter().copied().flat_map(Outgoing::split).collect();
    let groups: Vec<&[Outgoing<'_>]> = single.chunks(1).collect();
    let result = send_all(socket, &groups, &mut sent);
    finished(sent, result)
}

/// An error after something was sent is that of a later call.
fn finished(sent: Sent, result: Result<(), (usize, io::Error)>) -> io::Result<Sent> {
    match result {
        Err((_, error)) if sent.datagrams == 0 => Err(error),
        _ => Ok(sent),
    }
}

/// Sends each group as a message. An error comes with the number of the group that could not be sent.
fn send_all(
    socket: std::os::fd::BorrowedFd<'_>,
    groups: &[&[Outgoing<'_>]],
    sent: &mut Sent,
) -> Result<(), (usize, io::Error)> {
    let mut done = 0;
    while done < groups.len() {
        let slots: Vec<SendSlot<'_>> =
            groups.iter().skip(done).take(MAX_DATAGRAMS).map(|group| SendSlot::new(group)).collect();
        let count = sys::send_datagrams(socket, &slots).map_err(|error| (done, error))?;
        if count == 0 {
            return Ok(());
        }
        for piece in groups.iter().skip(done).take(count).copied().flatten() {
            sent.datagrams += piece.count();
            sent.bytes += piece.payload.len();
        }
        done += count;
    }
    Ok(())
}

fn is_merged(group: Option<&&[Outgoing<'_>]>) -> bool {
    group.is_some_and(|group| group.iter().map(Outgoing::count).sum::<usize>() > 1)
}

/// Errors by which a kernel or a device says that it cannot split a message, or that its parts are too long for the path.
fn is_about_merging(error: &io::Error) -> bool {
    let kinds = [libc::EINVAL, libc::EIO, libc::EMSGSIZE, libc::EOPNOTSUPP, libc::ENOPROTOOPT];
    error.raw_os_error().is_some_and(|number| kinds.contains(&number))
}

/// Neighbours that can go as one message: one peer, one size, of which only the last may be shorter.
fn grouped<'a, 'b>(datagrams: &'a [Outgoing<'b>]) -> Vec<&'a [Outgoing<'b>]> {
    let mut groups = Vec::new();
    let mut rest = datagrams;
    while !rest.is_empty() {
        let (group, others) = rest.split_at(group_length(rest));
        groups.push(group);
        rest = others;
    }
    groups
}

fn group_length(datagrams: &[Outgoing<'_>]) -> usize {
    let Some(first) = datagrams.first() else { return 0 };
    let (mut length, mut bytes, mut count) = (1, first.payload.len(), first.count());
    let mut last = first;
    for next in datagrams.iter().skip(1) {
        let is_full = first.segment > 0 && last.payload.len() % first.segment == 0;
        let fits = next.segment == first.segment || (next.count() == 1 && next.segment < first.segment);
        let is_small = bytes + next.payload.len() <= MAX_MERGED && count + next.count() <= MAX_SEGMENTS;
        let is_same_route = (next.peer, next.local) == (first.peer, first.local);
        if !(is_full && fits && is_small && is_same_route) || next.payload.is_empty() {
            break;
        }
        length += 1;
        bytes += next.payload.len();
        count += next.count();
        last = next;
    }
    length
}
