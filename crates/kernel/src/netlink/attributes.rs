//! Takes attributes apart. Any bytes will do: what makes no sense is left out, nothing panics.

use super::aligned;

/// The bits of an attribute's kind that are its kind; the others say how it is stored.
const KIND: u16 = 0x3fff;
const HEADER: usize = 4;

/// One attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// What it says.
    pub kind: u16,
    /// The value.
    pub value: &'a [u8],
}

impl<'a> Attribute<'a> {
    /// The value as one byte.
    pub fn byte(self) -> Option<u8> {
        match self.value {
            [byte] => Some(*byte),
            _ => None,
        }
    }

    /// The value as a big-endian number of two bytes.
    pub fn short(self) -> Option<u16> {
        self.value.try_into().ok().map(u16::from_be_bytes)
    }

    /// The value as a big-endian number.
    pub fn number(self) -> Option<u32> {
        self.value.try_into().ok().map(u32::from_be_bytes)
    }

    /// The value as a big-endian number of eight bytes.
    pub fn long(self) -> Option<u64> {
        self.value.try_into().ok().map(u64::from_be_bytes)
    }

    /// The value as text, up to its closing zero.
    pub fn text(self) -> Option<&'a str> {
        let end = self.value.iter().position(|byte| *byte == 0).unwrap_or(self.value.len());
        str::from_utf8(&self.value[..end]).ok()
    }

    /// The value as attributes.
    pub fn nested(self) -> Attributes<'a> {
        Attributes::new(self.value)
    }
}

/// Attributes one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    bytes: &'a [u8],
}

/// Goes through attributes.
#[derive(Clone, Debug)]
pub struct AttributeIter<'a> {
    rest: &'a [u8],
}

impl<'a> Attributes<'a> {
    /// Those in these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The first of a kind.
    pub fn get(self, kind: u16) -> Option<Attribute<'a>> {
        self.into_iter().find(|attribute| attribute.kind == kind)
    }

    /// The number of a kind.
    pub fn number(self, kind: u16) -> Option<u32> {
        self.get(kind)?.number()
    }

    /// The text of a kind.
    pub fn text(self, kind: u16) -> Option<&'a str> {
        self.get(kind)?.text()
    }

    /// The attributes inside one of a kind.
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
