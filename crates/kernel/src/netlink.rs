//! Netlink itself, independent of the kind of object.
//!
//! [`Writer`] builds messages, [`Messages`] and [`Attributes`] parse replies without ever panicking, and [`Socket`] sends,
//! waits, dumps and receives notifications. Knows no object: nf_tables is in [`crate::nft`], flows in
//! [`crate::conntrack`], addresses in [`crate::interfaces`], virtual servers in [`crate::ipvs`], address sets in
//! [`crate::ipset`].

mod attributes;
mod error;
mod listener;
mod messages;
mod pipeline;
mod socket;
mod writer;

pub use attributes::{Attribute, AttributeIter, Attributes};
pub use error::{NetlinkError, Rejection};
pub use listener::{Heard, Listener};
pub use messages::{Message, Messages};
pub use socket::{Dump, DumpEnd, Incoming, Membership, Protocol, Request, Socket};
pub use writer::{MessageHeader, Position, Writer};

/// Flags of messages (`NLM_F_*`).
pub mod flags {
    /// Marks a request.
    pub const REQUEST: u16 = 0x1;
    /// Requests an acknowledgement of success, too.
    pub const ACK: u16 = 0x4;
    /// In replies: the objects changed during the dump.
    pub const DUMP_INTERRUPTED: u16 = 0x10;
    /// In replies: the error does not contain the whole request.
    pub const CAPPED: u16 = 0x100;
    /// In replies: extended acknowledgement attributes follow.
    pub const DETAILS: u16 = 0x200;
    /// In requests: list all objects.
    pub const DUMP: u16 = 0x300;
    /// In requests, and in notifications of them: fail if the object exists.
    pub const EXCLUSIVE: u16 = 0x200;
    /// Create the object unless it exists.
    pub const CREATE: u16 = 0x400;
    /// Append to a list.
    pub const APPEND: u16 = 0x800;
}

/// Lengths of messages and attributes are rounded up to this.
const ALIGNMENT: usize = 4;

fn aligned(length: usize) -> usize {
    length.next_multiple_of(ALIGNMENT)
}
