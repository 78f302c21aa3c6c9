//! Says what exactly is wrong with a text that should be a CIDR block.

use ferrule_model::{parse_cidr, parse_ip};

use crate::go::quoted;

/// A complaint's reason, followed by what exactly is wrong; `None` if the text is a block.
pub(super) fn flaw_after(reason: &str, text: &str) -> Option<String> {
    parse_cidr(text).is_none().then(|| format!("{reason}; {}", flaw(text)))
}

fn flaw(text: &str) -> String {
    if text.is_empty() {
        return "it is empty".to_owned();
    }
    if text.contains(char::is_whitespace) {
        return "it contains white space".to_owned();
    }
    let Some((address, length)) = text.split_once('/') else {
        return without_length(text);
    };
    let Some(ip) = parse_ip(address) else {
        return format!("{} is not an IP address", quoted(address));
    };
    let (family, longest) = if ip.is_ipv4() && !address.contains(':') { ("IPv4", 32) } else { ("IPv6", 128) };
    if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return format!("its length {} is not a number", quoted(length));
    }
    // Nothing else is left.
    format!("its length {length} is above {longest}, the longest in {family}")
}

fn without_length(text: &str) -> String {
    match parse_ip(text) {
        Some(_) if text.contains(':') => "it has no /length, a single address has /128".to_owned(),
        Some(_) => "it has no /length, a single address has /32".to_owned(),
        None => "it has no /length and is not an IP address".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_block_says_why() {
        for (text, expected) in [
            ("", "it is empty"),
            (" 10.0.0.0/8", "it contains white space"),
            ("10.0.0.0", "it has no /length, a single address has /32"),
            ("fd00::1", "it has no /length, a single address has /128"),
            ("172.16.200.0:24", "it has no /length and is not an IP address"),
            ("10.0.0/8", "\"10.0.0\" is not an IP address"),
            ("10.0.0.0/33", "its length 33 is above 32, the longest in IPv4"),
            ("fd00::/129", "its length 129 is above 128, the longest in IPv6"),
            (
                "10.0.0.0/99999999999999999999",
                "its length 99999999999999999999 is above 32, the longest in IPv4",
            ),
            ("10.0.0.0/", "its length \"\" is not a number"),
            ("10.0.0.0/255.0.0.0", "its length \"255.0.0.0\" is not a number"),
            ("10.0.0.0/8/9", "its length \"8/9\" is not a number"),
        ] {
            assert_eq!(flaw_after("no", text), Some(format!("no; {expected}")), "{text:?}");
        }
        for block in ["10.0.0.0/8", "010.0.0.0/08", "10.1.2.3/8", "fd00::/8", "::ffff:10.0.0.0/104"] {
            assert_eq!(flaw_after("no", block), None, "{block:?}");
        }
    }
}
