//! Takes what the kernel sent apart into messages, and errors into what was wrong.

use super::{Attributes, Refusal, aligned, flags};

const HEADER: usize = 16;
/// Kinds of messages that every netlink protocol has.
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// One message.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// What it is about.
    pub kind: u16,
    /// How it is meant.
    pub flags: u16,
    /// The request it answers.
    pub sequence: u32,
    /// The socket that caused it.
    pub port: u32,
    /// What it says.
    pub body: &'a [u8],
}

impl<'a> Message<'a> {
    /// Whether it ends a dump.
    pub fn is_done(&self) -> bool {
        self.kind == DONE
    }

    /// What it says about a request: accepted, refused, or nothing (`None`).
    ///
    /// The end of a dump may also carry an error; without one it says nothing.
    pub fn answer(&self) -> Option<Result<(), Refusal>> {
        let (code, rest) = self.body.split_first_chunk::<4>()?;
        let errno = i32::from_ne_bytes(*code).checked_neg()?;
        match (self.kind, errno) {
            (ERROR, 0) => Some(Ok(())),
            (ERROR, errno) => Some(Err(self.refusal(errno, rest))),
            (DONE, errno) if errno > 0 => Some(Err(Refusal::of(errno))),
            _ => None,
        }
    }

    /// The attributes behind a fixed part of so many bytes.
    pub fn attributes(&self, fixed: usize) -> Attributes<'a> {
        Attributes::new(self.body.get(fixed..).unwrap_or_default())
    }

    fn refusal(&self, errno: i32, request: &[u8]) -> Refusal {
        const MESSAGE: u16 = 1;
        const OFFSET: u16 = 2;
        let mut refusal = Refusal::of(errno);
        if self.flags & flags::DETAILS != 0 {
            let details = Attributes::new(self.behind_request(request));
            refusal.message = details.text(MESSAGE).map(str::to_owned);
            let offset = details.get(OFFSET).and_then(|offset| offset.value.try_into().ok());
            refusal.offset = offset.map(u32::from_ne_bytes);
        }
        refusal
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
        Some(Message { kind: short(4)?, flags: short(6)?, sequence: number(8)?, port: number(12)?, body })
    }
}
