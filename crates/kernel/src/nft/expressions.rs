//! The expressions of rules, as nf_tables defines them.
//!
//! Backends compose them into phrases such as "the destination is in that map". Registers are numbered as in the kernel: 1 to 4 hold 16 bytes each, 8 to 23 the same space in parts of 4 bytes.

use smallvec::SmallVec;

use super::{DataBytes, Name, Verdict};

/// A register. Where two numbers name the same space (8 is the start of 1, 12 of 2, 16 of 3, 20 of 4) the kernel, and so
/// every listing, uses the lower one; so must rules that are compared with a listing.
pub type Register = u32;

/// Bytes to compare or mask with.
pub type Bytes = SmallVec<[u8; 16]>;

/// One expression of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// Loads bytes of the packet.
    Payload {
        /// The header.
        base: PayloadBase,
        /// The offset within the header.
        offset: u32,
        /// The number of bytes.
        length: u32,
        /// The destination register.
        to: Register,
    },
    /// Loads packet metadata.
    Meta {
        /// The field.
        key: MetaKey,
        /// The destination register.
        to: Register,
    },
    /// Sets packet metadata.
    MetaSet {
        /// The field.
        key: MetaKey,
        /// The source register.
        from: Register,
    },
    /// Continues only if the comparison holds.
    Compare {
        /// Equal or not.
        comparison: Comparison,
        /// The source register.
        from: Register,
        /// The value to compare with.
        value: Bytes,
    },
    /// `to = (from & mask) ^ xor`
    Bitwise {
        /// The source register.
        from: Register,
        /// The destination register.
        to: Register,
        /// Bits that are kept.
        mask: Bytes,
        /// Bits that are flipped.
        xor: Bytes,
    },
    /// Continues only if a set contains the register's value; with a map, loads its value.
    Lookup {
        /// The set.
        set: Name,
        /// The register of the key.
        from: Register,
        /// The destination register; 0 for a verdict. `None` for a plain set.
        to: Option<Register>,
    },
    /// A random number below a modulus.
    RandomNumber {
        /// The modulus.
        modulus: u32,
        /// The destination register.
        to: Register,
    },
    /// A Jenkins hash of a register's bytes.
    Hash {
        /// The source register.
        from: Register,
        /// The number of bytes.
        length: u32,
        /// The hash is taken modulo this.
        modulus: u32,
        /// The seed.
        seed: u32,
        /// The destination register.
        to: Register,
    },
    /// Loads a constant.
    Load {
        /// The constant.
        value: DataBytes,
        /// The destination register.
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
    /// Masquerades the connection with a random port.
    Masquerade,
    /// Rejects the packet with ICMP "port unreachable".
    Reject,
    /// Loads the state of the connection (`ct state`).
    ConnectionState {
        /// The destination register.
        to: Register,
    },
    /// Loads the status of the connection (`ct status`).
    ConnectionStatus {
        /// The destination register.
        to: Register,
    },
    /// Loads a part of the connection's addresses (`ct original ip daddr`, `ct reply proto-src`).
    ConnectionTuple {
        /// Of which direction.
        direction: Direction,
        /// Which part.
        part: TuplePart,
        /// The destination register.
        to: Register,
    },
    /// Loads the type of an address of the packet as routing sees it (`fib saddr type`, `fib daddr type`).
    AddressType {
        /// Which address.
        of: FibAddress,
        /// The destination register.
        to: Register,
    },
    /// Writes an element of a dynamic map from registers.
    Update {
        /// The map.
        set: Name,
        /// Insert and refresh, or delete.
        operation: UpdateOperation,
        /// The register of the key.
        key: Register,
        /// The register of the value.
        data: Register,
        /// The element's timeout.
        timeout_millis: Option<u64>,
    },
    /// Counts the packet in the element with the register's key of a dynamic set whose elements have counters; creates the
    /// element if there is none and room for it (`update @SET { … }`).
    CountIn {
        /// The set.
        set: Name,
        /// The register of the key.
        key: Register,
    },
    /// Counts packets and bytes in a named counter of the table.
    Counter(Name),
}

/// The header that a payload is loaded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadBase {
    /// The IP header.
    Network,
    /// The TCP, UDP or SCTP header.
    Transport,
}

/// A field of packet metadata.
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

/// How a packet changes a dynamic map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateOperation {
    /// Inserts an element or refreshes its timeout.
    Refresh,
    /// Deletes an element.
    Delete,
}

/// A direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client, as it sent its packets.
    Original,
    /// To the client, as its packets are expected where it is answered.
    Reply,
}

/// A part of the addresses of a connection in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TuplePart {
    /// The source address, of the table's family.
    SourceAddress,
    /// The destination address.
    DestinationAddress,
    /// The source port.
    SourcePort,
    /// The destination port.
    DestinationPort,
}
