//! Durations as Go writes and reads them: `1h2m3s`, `300ms`, `24h0m0s`, a bare `0`.
//!
//! A value may be negative; whether that makes sense is for validation to say.

use std::fmt;
use std::time::Duration;

/// A signed span of time with nanosecond steps, Go's `time.Duration`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(i64);

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Nothing there to read, or no number where one must be.
    #[error("invalid duration {0:?}, a number with a unit such as \"30s\" is wanted")]
    Malformed(String),
    /// A number without a unit.
    #[error("missing unit in duration {0:?}, did you mean \"{0}s\"?")]
    MissingUnit(String),
    /// A unit Go does not have.
    #[error("unknown unit {unit:?} in duration {text:?}; use ns, us, ms, s, m or h")]
    UnknownUnit {
        /// The unit as written.
        unit: String,
        /// The whole text.
        text: String,
    },
    /// More than about 292 years.
    #[error("duration {0:?} is too long")]
    TooLong(String),
}

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

impl GoDuration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A whole number of seconds.
    pub const fn seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(SECOND))
    }

    /// A whole number of milliseconds.
    pub const fn milliseconds(milliseconds: i64) -> Self {
        Self(milliseconds.saturating_mul(1_000_000))
    }

    /// A whole number of nanoseconds.
    pub const fn nanoseconds(nanoseconds: i64) -> Self {
        Self(nanoseconds)
    }

    /// The length in nanoseconds.
    pub const fn as_nanoseconds(self) -> i64 {
        self.0
    }

    /// Whether it is below zero.
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// The same span as std's type, which has no negative ones: those become zero.
    pub fn to_std(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }

    /// Reads Go's text form.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        let (negative, magnitude) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if magnitude == "0" {
            return Ok(Self::ZERO);
        }
        if magnitude.is_empty() {
            return Err(DurationError::Malformed(text.to_owned()));
        }
        let total = sum_of_parts(magnitude, text)?;
        let signed = if negative { -i128::from(total) } else { i128::from(total) };
        i64::try_from(signed).map(Self).map_err(|_| DurationError::TooLong(text.to_owned()))
    }
}

/// Adds up `1h2m3s`; at most 2⁶³ nanoseconds, which only a negative duration may reach.
fn sum_of_parts(magnitude: &str, text: &str) -> Result<u64, DurationError> {
    let mut rest = magnitude;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (part, after) = one_part(rest, text)?;
        total = total
            .checked_add(part)
            .filter(|sum| *sum <= 1 << 63)
            .ok_or_else(|| DurationError::TooLong(text.to_owned()))?;
        rest = after;
    }
    Ok(total)
}

/// Reads one number with its unit and returns what is left after it.
fn one_part<'a>(rest: &'a str, text: &str) -> Result<(u64, &'a str), DurationError> {
    let (whole, rest) = split_digits(rest);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(after) => split_digits(after),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(DurationError::Malformed(text.to_owned()));
    }
    let end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(end);
    if unit.is_empty() {
        return Err(DurationError::MissingUnit(text.to_owned()));
    }
    let scale = unit_scale(unit)
        .ok_or_else(|| DurationError::UnknownUnit { unit: unit.to_owned(), text: text.to_owned() })?;
    let too_long = || DurationError::TooLong(text.to_owned());
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| too_long())? };
    let whole = whole.checked_mul(scale).filter(|ns| *ns <= 1 << 63).ok_or_else(too_long)?;
    let part = whole.checked_add(fraction_of(fraction, scale)).ok_or_else(too_long)?;
    Ok((part, rest))
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

fn unit_scale(unit: &str) -> Option<u64> {
    match unit {
        "ns" => Some(1),
        // Both Unicode spellings of micro are in use.
        "us" | "µs" | "μs" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => Some(1_000_000_000),
        "m" => Some(60_000_000_000),
        "h" => Some(3_600_000_000_000),
        _ => None,
    }
}

/// The nanoseconds in `0.<digits>` of a unit, cut off, not rounded.
fn fraction_of(digits: &str, scale: u64) -> u64 {
    let mut nanoseconds: u128 = 0;
    let mut place: u128 = 10;
    // Beyond 18 digits nothing reaches a nanosecond, even of hours.
    for digit in digits.bytes().take(18) {
        nanoseconds += u128::from(digit - b'0') * u128::from(scale) * 1_000_000 / place;
        place *= 10;
    }
    u64::try_from(nanoseconds / 1_000_000).unwrap_or(u64::MAX)
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match nanoseconds {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanoseconds}ns"),
            1_000..1_000_000 => write!(f, "{}µs", Decimal { value: nanoseconds, places: 3 }),
            1_000_000..1_000_000_000 => write!(f, "{}ms", Decimal { value: nanoseconds, places: 6 }),
            _ => write_clock(f, nanoseconds),
        }
    }
}

/// One second and more: hours and minutes appear once a larger unit does, seconds always.
fn write_clock(f: &mut fmt::Formatter<'_>, nanoseconds: u64) -> fmt::Result {
    let (hour, minute) = (HOUR.unsigned_abs(), MINUTE.unsigned_abs());
    if nanoseconds >= hour {
        write!(f, "{}h", nanoseconds / hour)?;
    }
    if nanoseconds >= minute {
        write!(f, "{}m", nanoseconds % hour / minute)?;
    }
    write!(f, "{}s", Decimal { value: nanoseconds % minute, places: 9 })
}

/// A fixed-point number printed without trailing zeros.
struct Decimal {
    value: u64,
    places: usize,
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:0width$}", self.value, width = self.places + 1);
        let (whole, fraction) = digits.split_at(digits.len() - self.places);
        let fraction = fraction.trim_end_matches('0');
        if fraction.is_empty() { f.write_str(whole) } else { write!(f, "{whole}.{fraction}") }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_go_reads() {
        for (text, nanoseconds) in [
            ("0", 0),
            ("+0", 0),
            ("-0", 0),
            ("300ms", 300_000_000),
            ("1h2m3s", 3_723_000_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("-2s", -2_000_000_000),
            ("3us", 3_000),
            ("3µs", 3_000),
            ("0.000000001s", 1),
            ("9223372036854775807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
        ] {
            assert_eq!(GoDuration::parse(text), Ok(GoDuration(nanoseconds)), "{text}");
        }
    }

    #[test]
    fn refuses_what_go_refuses() {
        for text in
            ["", "10", "s", ".", "-", "1x", "1 s", "9223372036854775808ns", "3000000h", "..5s", "1h 2m"]
        {
            assert!(GoDuration::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn prints_as_go_prints() {
        for (nanoseconds, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (100_000_000, "100ms"),
            (1_500_000_000, "1.5s"),
            (30_000_000_000, "30s"),
            (900_000_000_000, "15m0s"),
            (3_600_000_000_000, "1h0m0s"),
            (86_400_000_000_000, "24h0m0s"),
            (-5_000_000_000, "-5s"),
        ] {
            assert_eq!(GoDuration(nanoseconds).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn every_duration_reads_back_as_itself(nanoseconds: i64) {
            let duration = GoDuration(nanoseconds);
            prop_assert_eq!(GoDuration::parse(&duration.to_string()), Ok(duration));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "[-+.0-9a-zµ ]{0,24}") {
            let _ = GoDuration::parse(&text);
        }
    }
}
