//! What an unquoted YAML word means: YAML 1.1 as the Go reader behind kube-proxy understands it.
//!
//! Used in both directions: the reader asks what a word is, the writer asks whether a text would be taken for
//! something else and must be quoted.

/// The meaning of an unquoted word.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// `~`, `null` or nothing.
    Null,
    /// `yes`, `off`, `True`, …
    Bool(bool),
    /// `12`, `0x1f`, `017`, `1_000`, …
    Integer(i128),
    /// `1.5`, `1e3`, `.inf`, …
    Float(f64),
    /// Anything else.
    Text,
}

/// The meaning of an unquoted word.
pub fn resolve(word: &str) -> Scalar {
    match word {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Scalar::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Scalar::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::Float(f64::NEG_INFINITY),
        _ => {}
    }
    if word.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return number(&word.replace('_', ""));
    }
    Scalar::Text
}

fn number(word: &str) -> Scalar {
    if let Some(whole) = integer(word) {
        return Scalar::Integer(whole);
    }
    if !resembles_float(word) {
        return Scalar::Text;
    }
    match word.parse::<f64>() {
        Ok(float) => Scalar::Float(float),
        Err(_) => Scalar::Text,
    }
}

fn integer(word: &str) -> Option<i128> {
    let (negative, magnitude) = match word.as_bytes().first()? {
        b'-' => (true, &word[1..]),
        b'+' => (false, &word[1..]),
        _ => (false, word),
    };
    let lower = magnitude.to_ascii_lowercase();
    let (digits, base) = match lower.as_bytes() {
        [b'0', b'x', ..] => (&lower[2..], 16),
        [b'0', b'b', ..] => (&lower[2..], 2),
        [b'0', b'o', ..] => (&lower[2..], 8),
        [b'0', _, ..] => (&lower[1..], 8),
        _ => (lower.as_str(), 10),
    };
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let value = i128::from(u64::from_str_radix(digits, base).ok()?);
    let value = if negative { -value } else { value };
    // Go's reader keeps 64 bits; what does not fit is a float to it.
    (value >= i128::from(i64::MIN)).then_some(value)
}

/// `[-+]? ( .digits | digits [. digits] ) ( [eE] [-+]? digits )?`
fn resembles_float(word: &str) -> bool {
    let rest = word.strip_prefix(['-', '+']).unwrap_or(word);
    let (mantissa, exponent) = match rest.find(['e', 'E']) {
        Some(at) => (&rest[..at], Some(&rest[at + 1..])),
        None => (rest, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa_is_good = digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty());
    let exponent_is_good = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    mantissa_is_good && exponent_is_good
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_mean_what_they_mean_to_go() {
        for (word, meaning) in [
            ("~", Scalar::Null),
            ("yes", Scalar::Bool(true)),
            ("Off", Scalar::Bool(false)),
            ("12", Scalar::Integer(12)),
            ("-12", Scalar::Integer(-12)),
            ("0x10", Scalar::Integer(16)),
            ("010", Scalar::Integer(8)),
            ("0o17", Scalar::Integer(15)),
            ("1_000", Scalar::Integer(1000)),
            ("08", Scalar::Float(8.0)),
            ("1.0", Scalar::Float(1.0)),
            ("1e2", Scalar::Float(100.0)),
            (".5", Scalar::Float(0.5)),
            ("1.2.3", Scalar::Text),
            ("0x", Scalar::Text),
            ("1:30", Scalar::Text),
            ("2001-01-01", Scalar::Text),
            ("-", Scalar::Text),
            ("yEs", Scalar::Text),
            ("10.0.0.0/8", Scalar::Text),
        ] {
            assert_eq!(resolve(word), meaning, "{word}");
        }
    }
}
