//! 32-bit floats as Go's `strconv` reads and prints them.
//!
//! Only finite ones: what would be infinite or no number at all is refused.

/// Reads a finite 32-bit float, decimal or hexadecimal, with underscores between digits.
///
/// `nan` and `inf`, which Go takes too, are refused: no setting has a use for them.
pub fn parse_float32(text: &str) -> Option<f32> {
    let digits = if text.contains('_') { without_float_underscores(text)? } else { text.to_owned() };
    let (sign, magnitude) = match digits.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, digits.strip_prefix('+').unwrap_or(&digits)),
    };
    if magnitude.starts_with(['+', '-']) {
        return None;
    }
    let lower = magnitude.to_ascii_lowercase();
    let value: f32 = match lower.strip_prefix("0x") {
        Some(hexadecimal) => parse_hexadecimal_float(hexadecimal)?,
        None => lower.parse().ok()?,
    };
    value.is_finite().then_some(sign * value)
}

/// An underscore stands between two digits, or between a base prefix and a digit.
fn without_float_underscores(text: &str) -> Option<String> {
    let lower = text.trim_start_matches(['+', '-']).to_ascii_lowercase();
    let (body, is_hexadecimal) = match lower.strip_prefix("0x") {
        // The prefix counts as a digit.
        Some(rest) => (format!("0{rest}"), true),
        None => (lower, false),
    };
    let is_digit = |part: Option<char>| {
        part.is_some_and(|c| c.is_ascii_digit() || is_hexadecimal && c.is_ascii_hexdigit())
    };
    let parts: Vec<&str> = body.split('_').collect();
    let well_placed = parts
        .windows(2)
        .all(|pair| is_digit(pair[0].chars().next_back()) && is_digit(pair[1].chars().next()));
    well_placed.then(|| text.replace('_', ""))
}

/// What follows `0x`: `1.8p-1`. Go wants the exponent always.
fn parse_hexadecimal_float(text: &str) -> Option<f32> {
    /// Digits beyond these only matter for rounding.
    const LARGEST: u64 = 1 << 59;
    let (mantissa, exponent) = text.split_once('p')?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut exponent = i64::from(binary_exponent(exponent)?);
    let mut bits: u64 = 0;
    for (index, digit) in whole.chars().chain(fraction.chars()).enumerate() {
        let digit = u64::from(digit.to_digit(16)?);
        let is_fraction = index >= whole.len();
        if bits < LARGEST {
            bits = bits << 4 | digit;
            exponent -= if is_fraction { 4 } else { 0 };
        } else {
            // The last bit stands for all that was cut off.
            bits |= u64::from(digit != 0);
            exponent += if is_fraction { 0 } else { 4 };
        }
    }
    Some(rounded(bits, exponent))
}

/// Exponents beyond any float are cut short, so that they can be calculated with.
fn binary_exponent(text: &str) -> Option<i32> {
    const BEYOND_ANY_FLOAT: i32 = 100_000;
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let size = digits.parse().unwrap_or(BEYOND_ANY_FLOAT).min(BEYOND_ANY_FLOAT);
    Some(if negative { -size } else { size })
}

/// `bits · 2^exponent` as the nearest 32-bit float, a tie going to the even one; infinite if there is none.
fn rounded(bits: u64, exponent: i64) -> f32 {
    const PRECISION: i64 = 24;
    const SMALLEST_EXPONENT: i64 = -149;
    if bits == 0 {
        return 0.0;
    }
    let width = i64::from(u64::BITS - bits.leading_zeros());
    let excess = (width - PRECISION).max(SMALLEST_EXPONENT - exponent).max(0);
    if excess > 63 {
        return 0.0;
    }
    let (kept, cut, half) = (bits >> excess, bits & ((1 << excess) - 1), (1_u64 << excess) >> 1);
    let up = excess > 0 && (cut > half || cut == half && kept & 1 == 1);
    // At most 2^24, so every step below is exact.
    let kept = u32::try_from(kept + u64::from(up)).unwrap_or(u32::MAX);
    let exponent = i32::try_from(exponent + excess).unwrap_or(i32::MAX);
    if exponent > 127 {
        return f32::INFINITY;
    }
    #[expect(clippy::cast_possible_truncation)]
    let value = (f64::from(kept) * 2_f64.powi(exponent)) as f32;
    value
}

/// Prints a float as Go's `%g` does: the shortest form that reads back the same.
pub fn format_float32(value: f32) -> String {
    let magnitude = value.abs();
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() };
    }
    if magnitude != 0.0 && !(1e-4..1e21).contains(&magnitude) {
        return with_go_exponent(&format!("{value:e}"));
    }
    value.to_string()
}

/// `1e-7` as `1e-07`: Go's exponents have a sign and two digits at least.
fn with_go_exponent(text: &str) -> String {
    let Some((mantissa, exponent)) = text.split_once('e') else { return text.to_owned() };
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_the_short_way() {
        for (value, text) in [(5.0, "5"), (0.1, "0.1"), (-1.0, "-1"), (1e-7, "1e-07"), (2.5e30, "2.5e+30")] {
            assert_eq!(format_float32(value), text);
        }
    }

    #[test]
    fn floats_are_finite_and_may_be_hexadecimal() {
        for (text, value) in [
            ("7.5", 7.5),
            ("+.5", 0.5),
            ("5.", 5.0),
            ("-0", 0.0),
            ("1_0.5_0", 10.5),
            ("0x1p3", 8.0),
            ("0X_1.8P-1", 0.75),
            ("-0x1_0p0", -16.0),
            ("0x0p99999999999", 0.0),
            ("0x1.fffffep127", f32::MAX),
            ("0x1p-149", f32::from_bits(1)),
            ("0x1p-150", 0.0),
            ("0x1.8p-150", f32::from_bits(1)),
            // Ties go to the even neighbour; the least digit above a tie counts, however far away.
            ("0x1.000001p0", 1.0),
            ("0x1.000003p0", 1.0 + 2.0 * f32::EPSILON),
            ("0x1.000001000000000000000001p0", 1.0 + f32::EPSILON),
        ] {
            assert_eq!(parse_float32(text), Some(value), "{text:?}");
        }
        for text in [
            "",
            "fast",
            "nan",
            "+nan",
            "inf",
            "-Infinity",
            "1e99",
            "0x1p128",
            "0x1.ffffffp127",
            "0x10",
            "0xp1",
            "0x.p1",
            "0x1p",
            "0x1p+-1",
            "0b1",
            "_1",
            "1_",
            "1__0",
            "1_e1",
            "1e_1",
            "0x1_.8p0",
            "0x1._8p0",
            "--1",
        ] {
            assert_eq!(parse_float32(text), None, "{text:?}");
        }
    }
}
