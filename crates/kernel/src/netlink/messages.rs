//! Splits a datagram into messages and decodes errors.

use super::{Attributes, Rejection, aligned, flags};

const HEADER: usize = 16;
/// Kinds of messages that every netlink protocol has.
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// One netlink message.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The message type.
    pub kind: u16,
    /// `NLM_F_*` flags.
    pub flags: u16,
    /// The sequence number of the request it replies to.
    pub sequence: u32,
    /// The portid of the socket that caused it.
    pub portid: u32,
    /// Everything behind the header.
    pub body: &'a [u8],
}

impl<'a> Message<'a> {
    /// Whether it ends a dump.
    pub fn is_done(&self) -> bool {
        self.kind == DONE
    }

    /// Whether it accepts or rejects a request; `None` if it does neither.
    ///
    /// The end of a dump may carry an error as well.
    pub fn acknowledgement(&self) -> Option<Result<(), Rejection>> {
        let (code, rest) = self.body.split_first_chunk::<4>()?;
        let errno = i32::from_ne_bytes(*code).checked_neg()?;
        match (self.kind, errno) {
            (ERROR, 0) => Some(Ok(())),
            (ERROR, errno) => Some(Err(self.rejection(errno, rest))),
            (DONE, errno) if errno > 0 => Some(Err(Rejection::from_errno(errno))),
            _ => None,
        }
    }

    /// The attributes behind a fixed part of so many bytes.
    pub fn attributes(&self, fixed: usize) -> Attributes<'a> {
        Attributes::new(self.body.get(fixed..).unwrap_or_default())
    }

    fn rejection(&self, errno: i32, request: &[u8]) -> Rejection {
        const MESSAGE: u16 = 1;
        const OFFSET: u16 = 2;
        let mut rejection = Rejection::from_errno(errno);
        if self.flags & flags::DETAILS != 0 {
            let details = Attributes::new(self.behind_request(request));
            rejection.message = details.text(MESSAGE).map(str::to_owned);
            let offset = details.get(OFFSET).and_then(|offset| offset.value.try_into().ok());
            rejection.offset = offset.map(u32::from_ne_bytes);
        }
        rejection
    }

    /// What follows the repeated request: its header alone, or all of it.
    fn behind_request<'b>(&self, request: &'b [u8]) -> &'b [u8] {
        let length = match request.first_chunk::<4>() {
            Some(length) if self.flags & flags::CAPPED == 0 => u32::from_ne_bytes(*length) as usize,
            _ => HEADER,
        };
        request.get(aligned(length)..).unwrap_or_default()
    }
}

/// The messages of one datagram.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    /// Those in these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let header = self.rest.get(..HEADER)?;
        let number = |at: usize| header[at..].first_chunk::<4>().map(|bytes| u32::from_ne_bytes(*bytes));
        let short = |at: usize| header[at..].first_chunk::<2>().map(|bytes| u16::from_ne_bytes(*bytes));
        let length = number(0)? as usize;
        let body = self.rest.get(HEADER..length)?;
        self.rest = self.rest.get(aligned(length)..).unwrap_or_default();
        Some(Message { kind: short(4)?, flags: short(6)?, sequence: number(8)?, portid: number(12)?, body })
    }
}
