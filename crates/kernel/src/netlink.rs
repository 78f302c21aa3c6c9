//! Netlink: how Linux is asked and answers, for every kind of object alike.
//!
//! [`Writer`] builds messages, [`Messages`] and [`Attributes`] take answers apart without ever panicking, and
//! [`Socket`] sends, waits, dumps and listens. Knows no object: nf_tables is in [`crate::nft`], flows in
//! [`crate::conntrack`], addresses in [`crate::interfaces`].

mod attributes;
mod error;
mod messages;
mod socket;
mod writer;

pub use attributes::{Attribute, AttributeIter, Attributes};
pub use error::{NetlinkError, Refusal};
pub use messages::{Message, Messages};
pub use socket::{Dump, Incoming, Protocol, Request, Socket};
pub use writer::{MessageHeader, Writer};

/// Flags of messages (`NLM_F_*`).
pub mod flags {
    /// It is a request.
    pub const REQUEST: u16 = 0x1;
    /// The sender wants an answer even if all went well.
    pub const ACK: u16 = 0x4;
    /// In answers: the objects changed while they were listed.
    pub const DUMP_INTERRUPTED: u16 = 0x10;
    /// In answers: the request is not repeated in full behind the error.
    pub const CAPPED: u16 = 0x100;
    /// In answers: attributes with details follow.
    pub const DETAILS: u16 = 0x200;
    /// In requests: all objects, not one.
    pub const DUMP: u16 = 0x300;
    /// Make the object if it is not there.
    pub const CREATE: u16 = 0x400;
    /// Add at the end.
    pub const APPEND: u16 = 0x800;
}

/// Lengths of messages and attributes are rounded up to this.
const ALIGNMENT: usize = 4;

fn aligned(length: usize) -> usize {
    length.next_multiple_of(ALIGNMENT)
}
