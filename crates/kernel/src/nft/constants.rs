//! The kernel's constants for nf_tables (`linux/netfilter/nf_tables.h`), grouped by object.

/// Message types within [`SUBSYSTEM`].
pub mod message {
    pub const NEW_TABLE: u16 = 0;
    pub const GET_TABLE: u16 = 1;
    pub const DELETE_TABLE: u16 = 2;
    pub const NEW_CHAIN: u16 = 3;
    pub const GET_CHAIN: u16 = 4;
    pub const DELETE_CHAIN: u16 = 5;
    pub const NEW_RULE: u16 = 6;
    pub const GET_RULE: u16 = 7;
    pub const DELETE_RULE: u16 = 8;
    pub const NEW_SET: u16 = 9;
    pub const GET_SET: u16 = 10;
    pub const DELETE_SET: u16 = 11;
    pub const NEW_ELEMENTS: u16 = 12;
    pub const GET_ELEMENTS: u16 = 13;
    pub const DELETE_ELEMENTS: u16 = 14;
    pub const NEW_GENERATION: u16 = 15;
    pub const GET_GENERATION: u16 = 16;
    pub const NEW_OBJECT: u16 = 18;
    pub const GET_OBJECT: u16 = 19;
    pub const DELETE_OBJECT: u16 = 20;
    pub const NEW_FLOWTABLE: u16 = 22;
    pub const GET_FLOWTABLE: u16 = 23;
    pub const DELETE_FLOWTABLE: u16 = 24;
}

/// The nfnetlink subsystem of nf_tables.
pub const SUBSYSTEM: u16 = 10;
/// Opens a batch.
pub const BATCH_BEGIN: u16 = 16;
/// Closes a batch.
pub const BATCH_END: u16 = 17;
/// Attribute of [`BATCH_BEGIN`]: the expected generation.
pub const BATCH_GENERATION: u16 = 1;
/// The multicast group of notifications.
pub const GROUP: u32 = 7;
/// The length of the fixed part of a body: family, version, and a resource id, which is the subsystem in batches.
pub const FIXED: usize = 4;

/// The message type with its subsystem.
pub const fn kind(message: u16) -> u16 {
    SUBSYSTEM << 8 | message
}

/// Attributes of a generation.
pub mod generation {
    pub const ID: u16 = 1;
    pub const PROCESS: u16 = 2;
    pub const PROCESS_NAME: u16 = 3;
}

/// Attributes of a table.
pub mod table {
    pub const NAME: u16 = 1;
    pub const FLAGS: u16 = 2;
    pub const USER_DATA: u16 = 6;
    pub const OWNER: u16 = 7;
    /// Flag: its chains are not hooked.
    pub const DORMANT: u32 = 1;
    /// Flag: only the socket that created it may change it.
    pub const OWNED: u32 = 2;
}

/// Attributes of a chain.
pub mod chain {
    pub const TABLE: u16 = 1;
    pub const NAME: u16 = 3;
    pub const HOOK: u16 = 4;
    pub const POLICY: u16 = 5;
    pub const TYPE: u16 = 7;
    pub const FLAGS: u16 = 10;
    pub const USER_DATA: u16 = 12;
    pub const HOOK_NUMBER: u16 = 1;
    pub const HOOK_PRIORITY: u16 = 2;
    pub const HOOK_DEVICE: u16 = 3;
    pub const HOOK_DEVICES: u16 = 4;
    /// Flag: it has a hook.
    pub const BASE: u32 = 1;
    /// Policy: let packets pass.
    pub const ACCEPT: u32 = 1;
}

/// Attributes of a rule.
pub mod rule {
    pub const TABLE: u16 = 1;
    pub const CHAIN: u16 = 2;
    pub const HANDLE: u16 = 3;
    pub const EXPRESSIONS: u16 = 4;
    pub const COMPAT: u16 = 5;
    pub const USER_DATA: u16 = 7;
}

/// Attributes of a set.
pub mod set {
    pub const TABLE: u16 = 1;
    pub const NAME: u16 = 2;
    pub const FLAGS: u16 = 3;
    pub const KEY_TYPE: u16 = 4;
    pub const KEY_LENGTH: u16 = 5;
    pub const DATA_TYPE: u16 = 6;
    pub const DATA_LENGTH: u16 = 7;
    pub const POLICY: u16 = 8;
    pub const DESCRIPTION: u16 = 9;
    pub const ID: u16 = 10;
    pub const TIMEOUT: u16 = 11;
    pub const GC_INTERVAL: u16 = 12;
    pub const USER_DATA: u16 = 13;
    pub const OBJECT_TYPE: u16 = 15;
    pub const EXPRESSION: u16 = 17;
    pub const EXPRESSIONS: u16 = 18;
    pub const DESCRIPTION_SIZE: u16 = 1;
    /// Flag: it has ranges.
    pub const INTERVALS: u32 = 0x4;
    /// Flag: it is a map.
    pub const MAP: u32 = 0x8;
    /// Flag: elements may expire.
    pub const TIMEOUTS: u32 = 0x10;
    /// Flag: packets write its elements.
    pub const EVALUATED: u32 = 0x20;
    /// The type of a verdict as data.
    pub const VERDICT_TYPE: u32 = 0xffff_ff00;
}

/// Attributes of elements.
pub mod element {
    pub const TABLE: u16 = 1;
    pub const SET: u16 = 2;
    pub const LIST: u16 = 3;
    /// An item of any list.
    pub const ITEM: u16 = 1;
    pub const KEY: u16 = 1;
    pub const DATA: u16 = 2;
    pub const FLAGS: u16 = 3;
    pub const EXPIRATION: u16 = 5;
    pub const USER_DATA: u16 = 6;
    pub const EXPRESSION: u16 = 7;
    pub const OBJECT: u16 = 9;
    pub const KEY_END: u16 = 10;
    pub const EXPRESSIONS: u16 = 11;
    /// Flag: its key is the first one behind a range.
    pub const RANGE_END: u32 = 0x1;
}

/// Attributes of a named object.
pub mod object {
    pub const TABLE: u16 = 1;
    pub const NAME: u16 = 2;
    pub const TYPE: u16 = 3;
    pub const DATA: u16 = 4;
    pub const COUNTER: u32 = 1;
    pub const COUNTER_BYTES: u16 = 1;
    pub const COUNTER_PACKETS: u16 = 2;
}

/// Attributes of a flowtable.
pub mod flowtable {
    pub const TABLE: u16 = 1;
    pub const NAME: u16 = 2;
}

/// Attributes of a value.
pub mod data {
    pub const VALUE: u16 = 1;
    pub const VERDICT: u16 = 2;
    pub const VERDICT_CODE: u16 = 1;
    pub const VERDICT_CHAIN: u16 = 2;
    pub const DROP: u32 = 0;
    pub const ACCEPT: u32 = 1;
    pub const JUMP: u32 = (-3_i32).cast_unsigned();
    pub const GOTO: u32 = (-4_i32).cast_unsigned();
    pub const RETURN: u32 = (-5_i32).cast_unsigned();
}

/// Attributes of expressions; the numbers of each kind stand alone.
pub mod expression {
    pub const NAME: u16 = 1;
    pub const DATA: u16 = 2;

    pub mod payload {
        pub const TO: u16 = 1;
        pub const BASE: u16 = 2;
        pub const OFFSET: u16 = 3;
        pub const LENGTH: u16 = 4;
        pub const NETWORK: u32 = 1;
        pub const TRANSPORT: u32 = 2;
    }

    pub mod meta {
        pub const TO: u16 = 1;
        pub const KEY: u16 = 2;
        pub const FROM: u16 = 3;
        pub const PRIORITY: u32 = 2;
        pub const MARK: u32 = 3;
        pub const INPUT_INTERFACE_NAME: u32 = 6;
        pub const OUTPUT_INTERFACE_NAME: u32 = 7;
        pub const L4_PROTOCOL: u32 = 16;
    }

    pub mod compare {
        pub const FROM: u16 = 1;
        pub const OPERATION: u16 = 2;
        pub const DATA: u16 = 3;
        pub const EQUAL: u32 = 0;
        pub const NOT_EQUAL: u32 = 1;
        pub const LESS: u32 = 2;
        pub const LESS_OR_EQUAL: u32 = 3;
        pub const GREATER: u32 = 4;
        pub const GREATER_OR_EQUAL: u32 = 5;
    }

    pub mod bitwise {
        pub const FROM: u16 = 1;
        pub const TO: u16 = 2;
        pub const LENGTH: u16 = 3;
        pub const MASK: u16 = 4;
        pub const XOR: u16 = 5;
        pub const OPERATION: u16 = 6;
        /// The operation that is assumed when none is named.
        pub const MASK_XOR: u32 = 0;
    }

    pub mod lookup {
        pub const SET: u16 = 1;
        pub const FROM: u16 = 2;
        pub const TO: u16 = 3;
        pub const FLAGS: u16 = 5;
        pub const INVERTED: u32 = 0x1;
    }

    pub mod range {
        pub const FROM: u16 = 1;
        pub const OPERATION: u16 = 2;
        pub const LOW: u16 = 3;
        pub const HIGH: u16 = 4;
    }

    pub mod random {
        pub const TO: u16 = 1;
        pub const MODULUS: u16 = 2;
        pub const TYPE: u16 = 3;
        pub const OFFSET: u16 = 4;
        pub const RANDOM: u32 = 1;
    }

    pub mod hash {
        pub const FROM: u16 = 1;
        pub const TO: u16 = 2;
        pub const LENGTH: u16 = 3;
        pub const MODULUS: u16 = 4;
        pub const SEED: u16 = 5;
        pub const OFFSET: u16 = 6;
        pub const TYPE: u16 = 7;
        pub const JENKINS: u32 = 0;
    }

    pub mod immediate {
        pub const TO: u16 = 1;
        pub const DATA: u16 = 2;
        /// The register that takes a verdict.
        pub const VERDICT_REGISTER: u32 = 0;
    }

    pub mod nat {
        pub const TYPE: u16 = 1;
        pub const FAMILY: u16 = 2;
        pub const ADDRESS: u16 = 3;
        pub const ADDRESS_END: u16 = 4;
        pub const PORT: u16 = 5;
        pub const PORT_END: u16 = 6;
        pub const FLAGS: u16 = 7;
        pub const DESTINATION: u32 = 1;
        /// The flags that the kernel adds itself: an address and a port are specified.
        pub const GIVEN: u32 = 0x3;
    }

    pub mod masquerade {
        pub const FLAGS: u16 = 1;
        pub const PORT: u16 = 2;
        pub const FULLY_RANDOM: u32 = 0x10;
    }

    pub mod reject {
        pub const TYPE: u16 = 1;
        pub const CODE: u16 = 2;
        pub const ICMP_UNREACHABLE: u32 = 0;
        /// "Port unreachable" in ICMP.
        pub const PORT_IPV4: u8 = 3;
        /// "Port unreachable" in ICMPv6.
        pub const PORT_IPV6: u8 = 4;
    }

    pub mod conntrack {
        pub const TO: u16 = 1;
        pub const KEY: u16 = 2;
        pub const DIRECTION: u16 = 3;
        pub const STATE: u32 = 0;
        pub const STATUS: u32 = 2;
        pub const SOURCE_PORT: u32 = 11;
        pub const DESTINATION_PORT: u32 = 12;
        pub const SOURCE_IPV4: u32 = 19;
        pub const DESTINATION_IPV4: u32 = 20;
        pub const SOURCE_IPV6: u32 = 21;
        pub const DESTINATION_IPV6: u32 = 22;
        pub const ORIGINAL: u8 = 0;
        pub const REPLY: u8 = 1;
    }

    pub mod counter {
        pub const NAME: &str = "counter";
        pub const BYTES: u16 = 1;
        pub const PACKETS: u16 = 2;
    }

    pub mod fib {
        pub const TO: u16 = 1;
        pub const RESULT: u16 = 2;
        pub const FLAGS: u16 = 3;
        pub const ADDRESS_TYPE: u32 = 3;
        pub const SOURCE: u32 = 1;
        pub const DESTINATION: u32 = 2;
    }

    pub mod update {
        pub const SET: u16 = 1;
        pub const OPERATION: u16 = 3;
        pub const KEY: u16 = 4;
        pub const DATA: u16 = 5;
        pub const TIMEOUT: u16 = 6;
        pub const EXPRESSION: u16 = 7;
        pub const FLAGS: u16 = 9;
        pub const EXPRESSIONS: u16 = 10;
        pub const REFRESH: u32 = 1;
        pub const DELETE: u32 = 2;
        /// The flag that the kernel adds itself where elements have counters.
        pub const COUNTS: u32 = 2;
    }

    pub mod reference {
        pub const TYPE: u16 = 1;
        pub const NAME: u16 = 2;
    }
}
