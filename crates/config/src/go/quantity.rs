//! Kubernetes quantities (`64Ki`, `1500m`, `2e3`), as far as buffer sizes need them.
//!
//! Values are kept in billionths, which is the finest step Kubernetes knows; finer ones round up.

use std::fmt;

/// An amount with the family of suffixes it was written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity {
    billionths: i128,
    style: Style,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// `Ki`, `Mi`, …
    Binary,
    /// `m`, `k`, `M`, …
    Decimal,
    /// `e3`, `E6`, …
    Exponent,
}

/// Why a text is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no quantity; a number with an optional suffix such as \"64Ki\" or \"1M\" is wanted")]
pub struct QuantityError(String);

const ONE: i128 = 1_000_000_000;
/// The largest amount Kubernetes keeps; more is cut down to it.
const LARGEST: i128 = i64::MAX as i128 * ONE;
const DECIMAL_SUFFIXES: [(&str, u32); 10] =
    [("n", 0), ("u", 3), ("m", 6), ("", 9), ("k", 12), ("M", 15), ("G", 18), ("T", 21), ("P", 24), ("E", 27)];
const BINARY_SUFFIXES: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self { billionths: 0, style: Style::Decimal };

    /// Reads Kubernetes' text form.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        Self::parse_text(text).ok_or_else(|| QuantityError(text.to_owned()))
    }

    /// A whole number of bytes, rounded up; zero if negative.
    pub fn bytes(self) -> u64 {
        u64::try_from((self.billionths + ONE - 1).div_euclid(ONE)).unwrap_or(0)
    }

    /// Whether it is nothing, in whatever style.
    pub fn is_zero(self) -> bool {
        self.billionths == 0
    }

    fn parse_text(text: &str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (numerator, denominator, style) = scale(suffix)?;
        let (mantissa, places) = mantissa(number)?;
        let divisor = 10_i128.checked_pow(places)?.checked_mul(denominator)?;
        let product = mantissa.checked_mul(numerator).unwrap_or(i128::MAX);
        // Rounds away from zero, so that a positive request never becomes nothing.
        let billionths = (product / divisor).saturating_add(i128::from(product % divisor != 0)).min(LARGEST);
        Some(Self { billionths: if negative { -billionths } else { billionths }, style })
    }
}

/// The digits as one integer, and how many of them stood after the point.
fn mantissa(number: &str) -> Option<(i128, u32)> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    // Beyond 2⁶³ the value is cut anyway, so further digits cannot matter.
    let value = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    Some((value, u32::try_from(fraction.len()).ok()?))
}

/// What a suffix multiplies a number by to get billionths, as a fraction, and its style.
fn scale(suffix: &str) -> Option<(i128, i128, Style)> {
    if let Some(index) = BINARY_SUFFIXES.iter().position(|known| *known == suffix) {
        let shift = 10 * (u32::try_from(index).ok()? + 1);
        return Some((ONE << shift, 1, Style::Binary));
    }
    if let Some((_, power)) = DECIMAL_SUFFIXES.iter().find(|(known, _)| *known == suffix) {
        return Some((10_i128.checked_pow(*power)?, 1, Style::Decimal));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let power = exponent.checked_add(9)?;
    let factor = 10_i128.checked_pow(power.unsigned_abs())?;
    Some(if power >= 0 { (factor, 1, Style::Exponent) } else { (1, factor, Style::Exponent) })
}

impl fmt::Display for Quantity {
    /// The canonical form: no fraction, the largest suffix that allows that.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.billionths % ONE == 0;
        if self.style == Style::Binary && whole && self.billionths.abs() >= 1024 * ONE {
            return write_binary(f, self.billionths / ONE);
        }
        write_decimal(f, self.billionths, self.style)
    }
}

fn write_binary(f: &mut fmt::Formatter<'_>, mut units: i128) -> fmt::Result {
    let mut suffix = "";
    for larger in BINARY_SUFFIXES {
        if units % 1024 != 0 {
            break;
        }
        units /= 1024;
        suffix = larger;
    }
    write!(f, "{units}{suffix}")
}

fn write_decimal(f: &mut fmt::Formatter<'_>, mut amount: i128, style: Style) -> fmt::Result {
    if amount == 0 {
        return f.write_str("0");
    }
    let mut suffixes = DECIMAL_SUFFIXES.iter().peekable();
    while amount % 1000 == 0 && suffixes.len() > 1 {
        amount /= 1000;
        suffixes.next();
    }
    let (suffix, power) = suffixes.peek().map_or(("", 9), |(suffix, power)| (*suffix, *power));
    match style {
        Style::Exponent if power != 9 => write!(f, "{amount}e{}", i64::from(power) - 9),
        _ => write!(f, "{amount}{suffix}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn prints_the_canonical_form() {
        for (text, canonical) in [
            ("0", "0"),
            ("1024", "1024"),
            ("1000", "1k"),
            ("1024Ki", "1Mi"),
            ("64Ki", "64Ki"),
            ("0.5Ki", "512"),
            ("1500m", "1500m"),
            ("0.1", "100m"),
            ("2e3", "2e3"),
            ("-5k", "-5k"),
            ("1.5Gi", "1536Mi"),
            ("0.0000000001", "1n"),
        ] {
            assert_eq!(Quantity::parse(text).map(|quantity| quantity.to_string()), Ok(canonical.to_owned()));
        }
    }

    #[test]
    fn refuses_other_texts() {
        for text in ["", "x", "1KB", "Ki", "1..2", "--1", "1 Ki", "1e", "1ki"] {
            assert!(Quantity::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[-+.0-9eEKMGnumki]{0,40}") {
            if let Ok(quantity) = Quantity::parse(&text) {
                prop_assert!(Quantity::parse(&quantity.to_string()).is_ok());
            }
        }
    }
}
