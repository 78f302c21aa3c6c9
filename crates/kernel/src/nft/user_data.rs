//! The notes that `nft` leaves with objects, and needs to print them: comments, and what a set's fields mean.
//!
//! The kernel stores them unread. Each note is (kind, length, bytes); numbers are in host order. Written exactly as
//! `nft` 1.0 writes them, so that its listings of our table load again.

use super::{Field, Set, SetData};

/// No object may have more notes than this.
const MOST: usize = 256;
/// `nft` reads no longer comment, its closing zero included.
const MOST_COMMENT: usize = 128;

/// Notes of a set. Their numbers are those of `nft`.
mod of_set {
    pub const KEY_BYTE_ORDER: u8 = 0;
    pub const DATA_BYTE_ORDER: u8 = 1;
    pub const KEY_TYPEOF: u8 = 3;
    pub const DATA_TYPEOF: u8 = 4;
    pub const DATA_INTERVAL: u8 = 6;
    pub const COMMENT: u8 = 7;
}

/// The note that a comment is, with tables, chains and rules.
const COMMENT: u8 = 0;

/// The notes of a table, chain or rule.
pub fn of_commented(comment: Option<&str>) -> Vec<u8> {
    let mut notes = Vec::new();
    if let Some(comment) = comment {
        put_comment(&mut notes, COMMENT, comment);
    }
    notes
}

/// The comment in the notes of a table, chain or rule.
pub fn comment_of(notes: &[u8]) -> Option<String> {
    find_comment(notes, COMMENT)
}

/// The notes of a set.
pub fn of_set(set: &Set) -> Vec<u8> {
    let mut notes = Vec::new();
    put_number(&mut notes, of_set::KEY_BYTE_ORDER, byte_order(&set.key));
    if let Some(data) = &set.data {
        let order = match data {
            SetData::Verdict => 0,
            SetData::Fields(fields) => byte_order(fields),
        };
        put_number(&mut notes, of_set::DATA_BYTE_ORDER, order);
    }
    put_typeofs(&mut notes, set);
    if set.data.is_some() {
        put_number(&mut notes, of_set::DATA_INTERVAL, 0);
    }
    if let Some(comment) = &set.comment {
        put_comment(&mut notes, of_set::COMMENT, comment);
    }
    notes
}

/// The comment in the notes of a set.
pub fn comment_of_set(notes: &[u8]) -> Option<String> {
    find_comment(notes, of_set::COMMENT)
}

/// Whether a set must be declared by example (`typeof`), because its fields have no names as types.
pub fn is_declared_by_example(set: &Set) -> bool {
    let nameless = |field: &Field| matches!(field, Field::Slot | Field::Priority);
    match &set.data {
        Some(SetData::Fields(_)) => true,
        Some(SetData::Verdict) | None => set.key.iter().any(nameless),
    }
}

fn put_typeofs(notes: &mut Vec<u8>, set: &Set) {
    if is_declared_by_example(set) {
        put(notes, of_set::KEY_TYPEOF, &type_of(&set.key));
        if let Some(SetData::Fields(fields)) = &set.data {
            put(notes, of_set::DATA_TYPEOF, &type_of(fields));
        }
    } else if set.key.len() > 1 {
        // A concatenation of nothing: what `nft` writes for `type a . b`.
        put(notes, of_set::KEY_TYPEOF, &pair(kinds::CONCATENATION, &[]));
    }
}

/// How the numbers of a lone field are ordered; a concatenation has no order of its own.
fn byte_order(fields: &[Field]) -> u32 {
    const NONE: u32 = 0;
    const HOST: u32 = 1;
    const BIG_ENDIAN: u32 = 2;
    match fields {
        [Field::Slot | Field::Priority] => HOST,
        [Field::Ipv4Addr | Field::Ipv6Addr | Field::Port] => BIG_ENDIAN,
        // A protocol is one byte.
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

/// An expression of the field's type.
fn example(field: Field) -> Vec<u8> {
    const IP: (u32, u32) = (12, 12);
    const IP6: (u32, u32) = (13, 9);
    const TRANSPORT_PORT: (u32, u32) = (11, 2);
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

fn payload((protocol, field): (u32, u32)) -> Vec<u8> {
    pair(kinds::PAYLOAD, &numbers(&[protocol, field]))
}

/// An expression: its kind and its body.
fn pair(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut notes = Vec::new();
    put_number(&mut notes, 0, kind);
    put(&mut notes, 1, body);
    notes
}

fn numbers(values: &[u32]) -> Vec<u8> {
    let mut notes = Vec::new();
    for (kind, value) in (0..).zip(values) {
        put_number(&mut notes, kind, *value);
    }
    notes
}

fn put_number(notes: &mut Vec<u8>, kind: u8, value: u32) {
    put(notes, kind, &value.to_ne_bytes());
}

/// Leaves out a note that cannot be said: `nft` then prints less, and packets are not concerned.
fn put(notes: &mut Vec<u8>, kind: u8, value: &[u8]) {
    if let Ok(length) = u8::try_from(value.len())
        && notes.len() + 2 + value.len() <= MOST
    {
        notes.extend([kind, length]);
        notes.extend_from_slice(value);
    }
}

/// A comment may only take the room that the other notes leave.
fn put_comment(notes: &mut Vec<u8>, kind: u8, comment: &str) {
    let room = MOST.saturating_sub(notes.len() + 2).min(MOST_COMMENT);
    let Some(most) = room.checked_sub(1) else { return };
    let mut text = comment.as_bytes()[..comment.floor_char_boundary(most)].to_vec();
    text.push(0);
    put(notes, kind, &text);
}

fn find_comment(notes: &[u8], wanted: u8) -> Option<String> {
    let mut rest = notes;
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
