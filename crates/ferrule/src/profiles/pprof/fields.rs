//! Fields of a protocol buffer: numbers, bytes, messages in messages.

/// A message that is being written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<u8>);

const NUMBER: u64 = 0;
const BYTES: u64 = 2;

impl Fields {
    /// A number; 0 is what a reader takes for granted.
    pub fn number(&mut self, field: u64, value: u64) -> &mut Self {
        if value != 0 {
            self.varint(field << 3 | NUMBER);
            self.varint(value);
        }
        self
    }

    /// Bytes, or a text.
    pub fn bytes(&mut self, field: u64, bytes: &[u8]) -> &mut Self {
        self.varint(field << 3 | BYTES);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// A message.
    pub fn message(&mut self, field: u64, message: &Self) -> &mut Self {
        self.bytes(field, &message.0)
    }

    /// Several numbers.
    pub fn packed(&mut self, field: u64, values: &[u64]) -> &mut Self {
        let mut packed = Self::default();
        for value in values {
            packed.varint(*value);
        }
        self.message(field, &packed)
    }

    /// What was written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Seven bits at a time, the lowest first; the eighth says that more follow.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_as_protocol_buffers_say() {
        let mut inner = Fields::default();
        inner.number(1, 150).number(2, 0);
        let mut outer = Fields::default();
        outer.message(3, &inner).bytes(2, b"testing").packed(4, &[3, 270, 86942]);
        let expected = b"\x1a\x03\x08\x96\x01\x12\x07testing\x22\x06\x03\x8e\x02\x9e\xa7\x05";
        assert_eq!(outer.into_bytes(), expected);
    }
}
