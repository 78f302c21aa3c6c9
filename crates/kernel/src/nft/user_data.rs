//! User data: what `nft` stores with objects in order to print them, such as comments and the types of a set's fields.
//!
//! The kernel does not interpret it. Each entry is (kind, length, bytes); integers are in host order. Written exactly as
//! `nft` 1.0 does, so that its listings of our table can be loaded again.

use super::{Field, Set, SetData};

/// The kernel accepts no more user data for one object.
const MAX_BYTES: usize = 256;
/// `nft` reads no longer comment, including its terminating zero.
const MAX_COMMENT_BYTES: usize = 128;

/// Kinds of entries of a set, with the numbers of `nft`.
mod set_entry {
    pub const KEY_BYTE_ORDER: u8 = 0;
    pub const DATA_BYTE_ORDER: u8 = 1;
    pub const KEY_TYPEOF: u8 = 3;
    pub const DATA_TYPEOF: u8 = 4;
    pub const DATA_INTERVAL: u8 = 6;
    pub const COMMENT: u8 = 7;
}

/// The kind of a comment on tables, chains and rules.
const COMMENT: u8 = 0;

/// The user data of a table, chain or rule.
pub fn with_comment(comment: Option<&str>) -> Vec<u8> {
    let mut entries = Vec::new();
    if let Some(comment) = comment {
        put_comment(&mut entries, COMMENT, comment);
    }
    entries
}

/// The comment in the user data of a table, chain or rule.
pub fn comment(entries: &[u8]) -> Option<String> {
    find_comment(entries, COMMENT)
}

/// The user data of a set.
pub fn for_set(set: &Set) -> Vec<u8> {
    let mut entries = Vec::new();
    put_number(&mut entries, set_entry::KEY_BYTE_ORDER, byte_order(&set.key));
    if let Some(data) = &set.data {
        let order = match data {
            SetData::Verdict => 0,
            SetData::Fields(fields) => byte_order(fields),
        };
        put_number(&mut entries, set_entry::DATA_BYTE_ORDER, order);
    }
    put_typeofs(&mut entries, set);
    if set.data.is_some() {
        put_number(&mut entries, set_entry::DATA_INTERVAL, 0);
    }
    if let Some(comment) = &set.comment {
        put_comment(&mut entries, set_entry::COMMENT, comment);
    }
    entries
}

/// The comment in the user data of a set.
pub fn set_comment(entries: &[u8]) -> Option<String> {
    find_comment(entries, set_entry::COMMENT)
}

/// Whether a set must be declared with `typeof`, because its fields have no type names.
pub fn needs_typeof(set: &Set) -> bool {
    let nameless = |field: &Field| matches!(field, Field::Slot | Field::Priority);
    match &set.data {
        Some(SetData::Fields(_)) => true,
        Some(SetData::Verdict) | None => set.key.iter().any(nameless),
    }
}

fn put_typeofs(entries: &mut Vec<u8>, set: &Set) {
    if needs_typeof(set) {
        put(entries, set_entry::KEY_TYPEOF, &type_of(&set.key));
        if let Some(SetData::Fields(fields)) = &set.data {
            put(entries, set_entry::DATA_TYPEOF, &type_of(fields));
        }
    } else if set.key.len() > 1 {
        // An empty concatenation: what `nft` writes for `type a . b`.
        put(entries, set_entry::KEY_TYPEOF, &pair(kinds::CONCATENATION, &[]));
    }
}

/// The byte order of a single field; a concatenation has none.
fn byte_order(fields: &[Field]) -> u32 {
    const NONE: u32 = 0;
    const HOST: u32 = 1;
    const BIG_ENDIAN: u32 = 2;
    match fields {
        [Field::Slot | Field::Priority] => HOST,
        [Field::Ipv4Addr | Field::Ipv6Addr | Field::Port] => BIG_ENDIAN,
        // A protocol is a single byte.
        _ => NONE,
    }
}

/// Kinds of expressions in a typeof.
mod kinds {
    pub const PAYLOAD: u32 = 7;
    pub const META: u32 = 9;
    pub const CONCATENATION: u32 = 13;
    pub const RANDOM_NUMBER: u32 = 23;
}

fn type_of(fields: &[Field]) -> Vec<u8> {
    if let [field] = fields {
        return example(*field);
    }
    let mut members = Vec::new();
    for (number, field) in (0..).zip(fields) {
        put(&mut members, number, &example(*field));
    }
    pair(kinds::CONCATENATION, &members)
}

/// An expression of the field's type, for `typeof`.
fn example(field: Field) -> Vec<u8> {
    const IP: [u32; 2] = [12, 12];
    const IP6: [u32; 2] = [13, 9];
    const TRANSPORT_PORT: [u32; 2] = [11, 2];
    match field {
        Field::Ipv4Addr => payload(IP),
        Field::Ipv6Addr => payload(IP6),
        Field::Port => payload(TRANSPORT_PORT),
        Field::Protocol => pair(kinds::META, &numbers(&[16])),
        Field::Priority => pair(kinds::META, &numbers(&[2])),
        // Random, modulo 2, no offset.
        Field::Slot => pair(kinds::RANDOM_NUMBER, &numbers(&[1, 2, 0])),
    }
}

/// A header field, by the numbers that `nft` gives the protocol and its field.
fn payload(protocol_and_field: [u32; 2]) -> Vec<u8> {
    pair(kinds::PAYLOAD, &numbers(&protocol_and_field))
}

/// An expression: its kind and its body.
fn pair(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut entries = Vec::new();
    put_number(&mut entries, 0, kind);
    put(&mut entries, 1, body);
    entries
}

fn numbers(values: &[u32]) -> Vec<u8> {
    let mut entries = Vec::new();
    for (kind, value) in (0..).zip(values) {
        put_number(&mut entries, kind, *value);
    }
    entries
}

fn put_number(entries: &mut Vec<u8>, kind: u8, value: u32) {
    put(entries, kind, &value.to_ne_bytes());
}

/// Leaves out an entry that does not fit: `nft` then prints less, and packets are not affected.
fn put(entries: &mut Vec<u8>, kind: u8, value: &[u8]) {
    if let Ok(length) = u8::try_from(value.len())
        && entries.len() + 2 + value.len() <= MAX_BYTES
    {
        entries.extend([kind, length]);
        entries.extend_from_slice(value);
    }
}

/// A comment is cut to the room that the other entries leave.
fn put_comment(entries: &mut Vec<u8>, kind: u8, comment: &str) {
    let room = MAX_BYTES.saturating_sub(entries.len() + 2).min(MAX_COMMENT_BYTES);
    let Some(most) = room.checked_sub(1) else { return };
    let mut text = comment.as_bytes()[..comment.floor_char_boundary(most)].to_vec();
    text.push(0);
    put(entries, kind, &text);
}

fn find_comment(entries: &[u8], wanted: u8) -> Option<String> {
    let mut rest = entries;
    while let [kind, length, behind @ ..] = rest {
        let value = behind.get(..usize::from(*length))?;
        if *kind == wanted {
            let text = value.strip_suffix(&[0]).unwrap_or(value);
            return str::from_utf8(text).ok().map(str::to_owned);
        }
        rest = behind.get(usize::from(*length)..)?;
    }
    None
}
