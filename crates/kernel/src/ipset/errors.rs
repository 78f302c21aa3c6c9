//! The error codes that only `ip_set` has. They begin where those of the system end.

/// A message that the kernel cannot read, or that lacks something that this type of set needs.
pub const PROTOCOL_ERROR: i32 = 4097;
/// The set is used by rules or other sets.
pub const BUSY: i32 = 4100;
/// The set has as many entries as it may have.
pub const FULL: i32 = 4352;

/// What an error code of `ip_set` means; `None` for all other codes.
pub fn describe(errno: i32) -> Option<&'static str> {
    Some(match errno {
        PROTOCOL_ERROR => "the kernel's ip_set does not understand the request",
        4098 => "the kernel has no set of this type or revision",
        4099 => "there are as many sets as the kernel allows",
        BUSY => "the set is in use",
        4101 => "there is a set of the second name",
        4102 => "the sets are of different types",
        4103 => "the entry is in the set already, or is not in it",
        4104 => "the length of the prefix is invalid",
        4105 => "the netmask is invalid",
        4106 => "the set is of the other address family",
        4107 => "the set has no timeouts",
        4108 => "the set is used by a rule or another set",
        4109 => "an IPv4 address is expected",
        4110 => "an IPv6 address is expected",
        4111 => "the set has no counters",
        4112 => "the set has no comments",
        FULL => "the set is full",
        4353 => "the entry cannot be in a set",
        4354 => "the protocol is invalid",
        4355 => "the protocol is missing",
        4356 | 4357 => "the range of addresses is invalid",
        4096..=8191 => "an error of the kernel's ip_set that is not known here",
        _ => return None,
    })
}
