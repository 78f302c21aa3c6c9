//! Text of bounded length: a value may come from an object, a file or another program and have megabytes.

use std::fmt::{self, Write};

/// Keeps the first bytes of what is written to it and counts the rest.
#[derive(Debug)]
pub struct BoundedText {
    kept: String,
    limit: usize,
    /// Bytes that were left out.
    cut: usize,
}

impl BoundedText {
    /// Keeps at most this many bytes.
    pub fn new(limit: usize) -> Self {
        Self { kept: String::new(), limit, cut: 0 }
    }

    /// Formats a value, cut to the limit.
    pub fn format(limit: usize, value: fmt::Arguments<'_>) -> String {
        let mut text = Self::new(limit);
        // Fails only if the value's own formatting does; what it printed until then is shown.
        let _ = text.write_fmt(value);
        text.finish()
    }

    /// The text, followed by how much is missing.
    pub fn finish(mut self) -> String {
        if self.cut > 0 {
            // Writing to a String cannot fail.
            let _ = write!(self.kept, "… ({} bytes more)", self.cut);
        }
        self.kept
    }
}

impl Write for BoundedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // After the first cut nothing more is kept, or the text would have holes.
        let room = if self.cut > 0 { 0 } else { self.limit.saturating_sub(self.kept.len()) };
        let kept = text.floor_char_boundary(room);
        self.kept.push_str(&text[..kept]);
        self.cut += text.len() - kept;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_kept_and_the_rest_is_counted() {
        assert_eq!(BoundedText::format(3, format_args!("abc")), "abc");
        assert_eq!(BoundedText::format(3, format_args!("{}{}", "ab", "cd")), "abc… (1 bytes more)");
        assert_eq!(BoundedText::format(3, format_args!("aéé")), "aé… (2 bytes more)");
        assert_eq!(BoundedText::format(2, format_args!("aé{}", "b")), "a… (3 bytes more)", "no holes");
        assert_eq!(BoundedText::format(0, format_args!("")), "");
    }
}
