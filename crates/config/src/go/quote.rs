//! Go's quoted strings (`%q`, `strconv.Quote`), used in log lines and error messages, and the same escapes without quotes.
//!
//! What Go does not print is escaped: control characters, line separators, bidi controls, other invisible format
//! characters, private and unassigned ones, and every space but the usual one.

use std::fmt::Write;

/// The text in double quotes, with Go's escapes for what does not print.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c => push_escaped(&mut out, c),
        }
    }
    out.push('"');
    out
}

/// The text without quotes: characters that do not print are escaped, but for those in `kept`.
pub fn escaped(text: &str, kept: &[char]) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if kept.contains(&c) {
            out.push(c);
        } else {
            push_escaped(&mut out, c);
        }
    }
    out
}

/// Whether Go's `unicode.IsPrint` holds.
pub fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    // The standard library escapes the same categories and offers no other way to ask. Inside a text, since at the
    // start of one it also escapes combining marks, which print.
    let mut buffer = [b'a'; 5];
    let end = 1 + c.encode_utf8(&mut buffer[1..]).len();
    let in_text = std::str::from_utf8(&buffer[..end]).unwrap_or_default();
    in_text.escape_debug().nth(1) == Some(c)
}

fn push_escaped(out: &mut String, c: char) {
    // Writing to a String cannot fail.
    let _ = match c {
        c if is_printable(c) => out.write_char(c),
        '\u{7}' => out.write_str("\\a"),
        '\u{8}' => out.write_str("\\b"),
        '\u{c}' => out.write_str("\\f"),
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        '\u{b}' => out.write_str("\\v"),
        c if c.is_ascii() => write!(out, "\\x{:02x}", u32::from(c)),
        c if u32::from(c) < 0x1_0000 => write!(out, "\\u{:04x}", u32::from(c)),
        c => write!(out, "\\U{:08x}", u32::from(c)),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_like_go() {
        assert_eq!(quoted("plain"), "\"plain\"");
        assert_eq!(quoted("a\"b\\c\nd\te"), r#""a\"b\\c\nd\te""#);
        assert_eq!(quoted("\u{1}\u{7f}\u{85}é"), r#""\x01\x7f\u0085é""#);
        assert_eq!(
            quoted("\u{a0}\u{ad}\u{200d}\u{2028}\u{e000}\u{e0041}"),
            r#""\u00a0\u00ad\u200d\u2028\ue000\U000e0041""#
        );
        assert_eq!(quoted("e\u{301}😀'"), "\"e\u{301}😀'\"");
    }

    #[test]
    fn without_quotes_only_what_does_not_print_is_escaped() {
        assert_eq!(escaped("a \"b\" \\ \u{1b}[31m\n\tc", &['\n', '\t']), "a \"b\" \\ \\x1b[31m\n\tc");
        assert_eq!(escaped("a\nb", &[]), "a\\nb");
    }
}
