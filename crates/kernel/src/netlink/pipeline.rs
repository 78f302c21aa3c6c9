//! Many requests in one send, each with its own outcome.

use std::collections::BTreeMap;

use super::{NetlinkError, Rejection, Socket, Writer, flags};

/// So many rejections fit into the smallest receive buffer that a socket has without any right.
const MESSAGES_PER_SEND: usize = 500;

impl Socket {
    /// Sends a request for each item and returns their outcomes in order. One that is rejected does not stop those after it.
    ///
    /// `write` writes one message with the sequence number it is given. Only the last message of a send asks to be
    /// acknowledged: the kernel works in order and always answers with a rejection, so what it has not rejected by then it has
    /// accepted.
    pub fn request_each<T>(
        &mut self,
        operation: &'static str,
        items: &[T],
        write: impl Fn(&mut Writer, &T, u32),
    ) -> Result<Vec<Result<(), Rejection>>, NetlinkError> {
        let mut outcomes = Vec::with_capacity(items.len());
        for part in items.chunks(MESSAGES_PER_SEND) {
            let mut rejections = self.request_part(operation, part, &write)?;
            outcomes.extend((0..part.len()).map(|at| match rejections.remove(&at) {
                Some(rejection) => Err(rejection),
                None => Ok(()),
            }));
        }
        Ok(outcomes)
    }

    /// Sends one part and returns what was rejected of it.
    fn request_part<T>(
        &mut self,
        operation: &'static str,
        part: &[T],
        write: &impl Fn(&mut Writer, &T, u32),
    ) -> Result<BTreeMap<usize, Rejection>, NetlinkError> {
        let first = self.reserve_sequences(u32::try_from(part.len()).unwrap_or(u32::MAX));
        let mut writer = Writer::new();
        for (sequence, item) in (0..).map(|at| first.wrapping_add(at)).zip(part) {
            write(&mut writer, item, sequence);
        }
        writer.add_flags_to_last_message(flags::ACK);
        self.send(operation, writer.as_bytes())?;
        let mut rejections = BTreeMap::new();
        self.receive_until(operation, |message| {
            let at = message.sequence.wrapping_sub(first) as usize;
            let answer = message.acknowledgement().filter(|_| at < part.len())?;
            if let Err(rejection) = answer {
                rejections.insert(at, rejection);
            }
            (at + 1 == part.len()).then_some(())
        })?;
        Ok(rejections)
    }
}
