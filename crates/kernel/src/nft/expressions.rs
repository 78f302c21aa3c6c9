//! The steps a rule is made of, as the kernel knows them.
//!
//! The vocabulary a backend speaks ("the destination is in that map") is the backend's; here are the kernel's own words.
//! Registers are numbered as the kernel does: 1 to 4 hold 16 bytes each, 8 to 23 the same space in parts of 4 bytes.

use smallvec::SmallVec;

use super::{DataBytes, Name, Verdict};

/// A register. Where two numbers name the same place (8 is the start of 1, 12 of 2, 16 of 3, 20 of 4) the kernel, and so
/// every listing, uses the lower one; rules that are to be compared must as well.
pub type Register = u32;

/// Bytes to compare or mask with.
pub type Bytes = SmallVec<[u8; 16]>;

/// One step of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// Loads bytes of the packet.
    Payload {
        /// Which header.
        base: PayloadBase,
        /// Where in it.
        offset: u32,
        /// How many bytes.
        length: u32,
        /// Where to.
        to: Register,
    },
    /// Loads a fact about the packet.
    Meta {
        /// Which.
        key: MetaKey,
        /// Where to.
        to: Register,
    },
    /// Sets a fact about the packet.
    MetaSet {
        /// Which.
        key: MetaKey,
        /// From where.
        from: Register,
    },
    /// Goes on only if the register compares so.
    Compare {
        /// How.
        comparison: Comparison,
        /// What.
        from: Register,
        /// With what.
        value: Bytes,
    },
    /// `to = (from & mask) ^ xor`
    Bitwise {
        /// From where.
        from: Register,
        /// Where to.
        to: Register,
        /// Kept bits.
        mask: Bytes,
        /// Flipped bits.
        xor: Bytes,
    },
    /// Goes on only if the register's value is in a set; in a map, loads what it leads to.
    Lookup {
        /// The set.
        set: Name,
        /// Where the key is.
        from: Register,
        /// Where to load the data; register 0 takes a verdict. `None` for a plain set.
        to: Option<Register>,
    },
    /// A random number below a modulus.
    RandomNumber {
        /// The modulus.
        modulus: u32,
        /// Where to.
        to: Register,
    },
    /// A Jenkins hash of a register's bytes.
    Hash {
        /// From where.
        from: Register,
        /// How many bytes.
        length: u32,
        /// The hash is taken modulo this.
        modulus: u32,
        /// What it starts from.
        seed: u32,
        /// Where to.
        to: Register,
    },
    /// Loads a constant.
    Load {
        /// The constant.
        value: DataBytes,
        /// Where to.
        to: Register,
    },
    /// Ends with a verdict.
    Verdict(Verdict),
    /// Redirects the connection to the address and port in two registers.
    DestinationNat {
        /// The address.
        address: Register,
        /// The port.
        port: Register,
    },
    /// Gives the connection an address of this host as its source, with a random port.
    Masquerade,
    /// Refuses the packet with "port unreachable".
    Reject,
    /// Loads the state of the connection (`ct state`).
    ConnectionState {
        /// Where to.
        to: Register,
    },
    /// Loads the status of the connection (`ct status`).
    ConnectionStatus {
        /// Where to.
        to: Register,
    },
    /// Loads the type of an address of the packet as routing sees it (`fib saddr type`, `fib daddr type`).
    AddressType {
        /// Which address.
        of: FibAddress,
        /// Where to.
        to: Register,
    },
    /// Writes an element of a dynamic map from registers.
    Update {
        /// The map.
        set: Name,
        /// Insert and refresh, or delete.
        operation: UpdateOperation,
        /// Where the key is.
        key: Register,
        /// Where the data is.
        data: Register,
        /// How long the element lives, in milliseconds.
        timeout_millis: Option<u64>,
    },
    /// Counts packets and bytes in a named counter of the table.
    Counter(Name),
}

/// Which header a payload is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadBase {
    /// The IP header.
    Network,
    /// The TCP, UDP or SCTP header.
    Transport,
}

/// A fact about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaKey {
    /// Its mark.
    Mark,
    /// Its transport protocol.
    L4Protocol,
    /// The name of the interface it came in on.
    InputInterfaceName,
    /// Its priority.
    Priority,
}

/// How a register is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Equal.
    Equal,
    /// Not equal.
    NotEqual,
}

/// An address of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FibAddress {
    /// Its source.
    Source,
    /// Its destination.
    Destination,
}

/// What a packet does to a dynamic map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateOperation {
    /// Inserts an element or refreshes its timeout.
    Refresh,
    /// Deletes an element.
    Delete,
}
