//! Iterates over attributes. Accepts any bytes: malformed attributes are skipped, nothing panics.

use std::net::IpAddr;

use super::aligned;

/// The type without its flag bits (nested, byte order).
const KIND: u16 = 0x3fff;
const HEADER: usize = 4;

/// One attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// The attribute type.
    pub kind: u16,
    /// The payload.
    pub value: &'a [u8],
}

impl<'a> Attribute<'a> {
    /// The payload as one byte.
    pub fn byte(self) -> Option<u8> {
        match self.value {
            [byte] => Some(*byte),
            _ => None,
        }
    }

    /// The payload as a big-endian `u16`.
    pub fn short(self) -> Option<u16> {
        self.value.try_into().ok().map(u16::from_be_bytes)
    }

    /// The payload as a big-endian `u32`.
    pub fn number(self) -> Option<u32> {
        self.value.try_into().ok().map(u32::from_be_bytes)
    }

    /// The payload as a big-endian `u64`.
    pub fn long(self) -> Option<u64> {
        self.value.try_into().ok().map(u64::from_be_bytes)
    }

    /// The payload as a `u16` in the machine's byte order.
    pub fn native_short(self) -> Option<u16> {
        self.value.try_into().ok().map(u16::from_ne_bytes)
    }

    /// The payload as a `u32` in the machine's byte order.
    pub fn native_number(self) -> Option<u32> {
        self.value.try_into().ok().map(u32::from_ne_bytes)
    }

    /// The payload as a `u64` in the machine's byte order.
    pub fn native_long(self) -> Option<u64> {
        self.value.try_into().ok().map(u64::from_ne_bytes)
    }

    /// The payload as an address: four bytes or sixteen.
    pub fn address(self) -> Option<IpAddr> {
        match self.value.len() {
            4 => <[u8; 4]>::try_from(self.value).ok().map(IpAddr::from),
            _ => <[u8; 16]>::try_from(self.value).ok().map(IpAddr::from),
        }
    }

    /// The payload as text, up to its terminating zero.
    pub fn text(self) -> Option<&'a str> {
        let end = self.value.iter().position(|byte| *byte == 0).unwrap_or(self.value.len());
        str::from_utf8(&self.value[..end]).ok()
    }

    /// The payload as attributes.
    pub fn nested(self) -> Attributes<'a> {
        Attributes::new(self.value)
    }
}

/// A sequence of attributes.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    bytes: &'a [u8],
}

/// Iterator over [`Attributes`].
#[derive(Clone, Debug)]
pub struct AttributeIter<'a> {
    rest: &'a [u8],
}

impl<'a> Attributes<'a> {
    /// The attributes in these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The first attribute of a type.
    pub fn get(self, kind: u16) -> Option<Attribute<'a>> {
        self.into_iter().find(|attribute| attribute.kind == kind)
    }

    /// The `u32` of a type.
    pub fn number(self, kind: u16) -> Option<u32> {
        self.get(kind)?.number()
    }

    /// The `u16` of a type, in the machine's byte order.
    pub fn native_short(self, kind: u16) -> Option<u16> {
        self.get(kind)?.native_short()
    }

    /// The `u32` of a type, in the machine's byte order.
    pub fn native_number(self, kind: u16) -> Option<u32> {
        self.get(kind)?.native_number()
    }

    /// The text of a type.
    pub fn text(self, kind: u16) -> Option<&'a str> {
        self.get(kind)?.text()
    }

    /// The attributes nested in one of a type.
    pub fn nested(self, kind: u16) -> Option<Attributes<'a>> {
        self.get(kind).map(Attribute::nested)
    }
}

impl<'a> IntoIterator for Attributes<'a> {
    type Item = Attribute<'a>;
    type IntoIter = AttributeIter<'a>;

    fn into_iter(self) -> AttributeIter<'a> {
        AttributeIter { rest: self.bytes }
    }
}

impl<'a> Iterator for AttributeIter<'a> {
    type Item = Attribute<'a>;

    fn next(&mut self) -> Option<Attribute<'a>> {
        let (header, _) = self.rest.split_first_chunk::<HEADER>()?;
        let [length_low, length_high, kind_low, kind_high] = *header;
        let length = usize::from(u16::from_ne_bytes([length_low, length_high]));
        let value = self.rest.get(HEADER..length)?;
        self.rest = self.rest.get(aligned(length)..).unwrap_or_default();
        Some(Attribute { kind: u16::from_ne_bytes([kind_low, kind_high]) & KIND, value })
    }
}
