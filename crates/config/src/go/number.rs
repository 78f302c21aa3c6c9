//! Booleans and numbers as Go's `strconv` reads them, with kube-proxy's ranges.
//!
//! Integers may carry a base prefix and underscores. Floats are in [`super::float`].

use std::str::FromStr;

/// Reads Go's boolean words; `None` for anything else (`yes` and `on` are not among them).
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Reads a decimal number of nothing but digits, which excludes the `+` that Rust's own parser lets pass.
pub fn parse_digits<T: FromStr>(text: &str) -> Option<T> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Reads a 32-bit integer, in base 2, 8, 10 or 16 by its prefix.
pub fn parse_int32(text: &str) -> Option<i32> {
    let (negative, magnitude) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let value = i64::try_from(parse_magnitude(magnitude)?).ok()?;
    i32::try_from(if negative { -value } else { value }).ok()
}

fn parse_magnitude(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let (digits, base) = if let Some(rest) = lower.strip_prefix("0x") {
        (rest, 16)
    } else if let Some(rest) = lower.strip_prefix("0b") {
        (rest, 2)
    } else if let Some(rest) = lower.strip_prefix("0o") {
        (rest, 8)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (&lower[1..], 8)
    } else {
        (lower.as_str(), 10)
    };
    let digits = without_underscores(digits, base)?;
    if digits.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(&digits, base).ok()
}

/// Underscores may stand between digits, and right after a base prefix.
fn without_underscores(digits: &str, base: u32) -> Option<String> {
    let misplaced = digits.contains("__") || digits.ends_with('_') || base == 10 && digits.starts_with('_');
    (!misplaced).then(|| digits.replace('_', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_are_gos_words_only() {
        for word in ["1", "t", "T", "true", "TRUE", "True"] {
            assert_eq!(parse_bool(word), Some(true));
        }
        for word in ["0", "f", "F", "false", "FALSE", "False"] {
            assert_eq!(parse_bool(word), Some(false));
        }
        for word in ["", "yes", "on", "tRUE", "2", " true"] {
            assert_eq!(parse_bool(word), None, "{word}");
        }
    }

    #[test]
    fn digits_are_digits() {
        assert_eq!(parse_digits("10249"), Some(10249_u16));
        for text in ["", "+1", "-1", "65536", "1 "] {
            assert_eq!(parse_digits::<u16>(text), None, "{text:?}");
        }
    }

    #[test]
    fn integers_take_base_prefixes_and_respect_32_bits() {
        for (text, value) in [
            ("14", Some(14)),
            ("+14", Some(14)),
            ("-999", Some(-999)),
            ("0x1F", Some(31)),
            ("0b11", Some(3)),
            ("0o17", Some(15)),
            ("017", Some(15)),
            ("0x_1f", Some(31)),
            ("1_000", Some(1000)),
            ("_1", None),
            ("1__0", None),
            ("1_", None),
            ("2147483647", Some(i32::MAX)),
            ("-2147483648", Some(i32::MIN)),
            ("2147483648", None),
            ("", None),
            ("-", None),
            ("--1", None),
            ("08", None),
            ("1.0", None),
            (" 1", None),
        ] {
            assert_eq!(parse_int32(text), value, "{text:?}");
        }
    }
}
