//! The fixed structures in which the kernel's extensions keep their options (`linux/netfilter/xt_*.h`).
//!
//! Numbers are in the machine's byte order unless an extension says otherwise. Sizes are those of machines whose pointers have
//! eight bytes.

/// A structure being filled in; everything else in it is zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Structure<const N: usize>([u8; N]);

impl<const N: usize> Structure<N> {
    pub(super) fn new() -> Self {
        Self([0; N])
    }

    /// Writes a field; what does not fit is left out.
    pub(super) fn with(mut self, at: usize, field: &[u8]) -> Self {
        for (place, byte) in self.0.iter_mut().skip(at).zip(field) {
            *place = *byte;
        }
        self
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The bytes of a field, if the structure is long enough.
pub(super) fn field<const N: usize>(info: &[u8], at: usize) -> Option<[u8; N]> {
    info.get(at..)?.first_chunk().copied()
}

pub(super) fn byte(info: &[u8], at: usize) -> Option<u8> {
    info.get(at).copied()
}

pub(super) fn short(info: &[u8], at: usize) -> Option<u16> {
    field(info, at).map(u16::from_ne_bytes)
}

pub(super) fn number(info: &[u8], at: usize) -> Option<u32> {
    field(info, at).map(u32::from_ne_bytes)
}

/// A text that ends with a zero byte within its field, if it can be printed on one line.
pub(super) fn text(info: &[u8], at: usize, length: usize) -> Option<&str> {
    let field = info.get(at..at.checked_add(length)?)?;
    let end = field.iter().position(|byte| *byte == 0)?;
    str::from_utf8(&field[..end]).ok().filter(|text| is_printable(text))
}

/// A name that can be printed without quotes.
pub(super) fn name(info: &[u8], at: usize, length: usize) -> Option<&str> {
    text(info, at, length).filter(|name| is_word(name))
}

/// Whether a text fits on one line.
pub(super) fn is_printable(text: &str) -> bool {
    !text.contains(char::is_control)
}

/// Whether a text is one word that cannot be taken for an option.
pub(super) fn is_word(text: &str) -> bool {
    let splits = |character: char| character.is_whitespace() || matches!(character, '"' | '\'' | '\\');
    !text.is_empty() && is_printable(text) && !text.contains(splits) && !text.starts_with(['-', '!'])
}

/// Whether everything from here on is zero.
pub(super) fn is_zero_from(info: &[u8], at: usize) -> bool {
    info.iter().skip(at).all(|byte| *byte == 0)
}
