//! Names of network interfaces, and beginnings of them, as a user may write them.
//!
//! The kernel has a say in what they are, and each proxy mode would do something else with what is none: iptables refuses it or takes
//! it for a wildcard, nftables cuts it off. So it is refused before there is a mode.

/// The kernel's longest name (`IFNAMSIZ` without the zero at the end).
const MAX_NAME_BYTES: usize = 15;

/// Why a text is neither the name of an interface nor the beginning of one; nothing if it may be.
pub(super) fn flaw(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some("must not be empty in this detectLocalMode".to_owned());
    }
    if text.len() > MAX_NAME_BYTES {
        let length = text.len();
        return Some(format!(
            "has {length} bytes; the name of a network interface has at most {MAX_NAME_BYTES}"
        ));
    }
    if matches!(text, "." | "..") {
        return Some("is not the name of a network interface".to_owned());
    }
    text.chars().find_map(|character| {
        let what = match character {
            '+' => "a plus sign, which iptables takes for a wildcard; write the name or the beginning alone",
            '/' | ':' => "a slash or a colon",
            '"' | '\'' | '\\' | '`' => "a quote or a backslash",
            '!' | '*' => {
                "an exclamation mark or an asterisk, which iptables or nftables take for something else"
            }
            character if character.is_whitespace() => "white space",
            character if character.is_control() => "a control character",
            _ => return None,
        };
        Some(format!("contains {what}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_kernel_knows_are_let_pass() {
        for name in ["cbr0", "veth", "a", "eth0.100", "wg-mesh_1", "-x", "br@if3", "123456789012345", "gré0"]
        {
            assert_eq!(flaw(name), None, "{name:?}");
        }
    }

    #[test]
    fn what_is_no_name_says_why() {
        for (text, why) in [
            ("", "must not be empty"),
            ("1234567890123456", "has 16 bytes"),
            ("éééééééé", "has 16 bytes"),
            (".", "is not the name"),
            ("..", "is not the name"),
            ("veth+", "plus sign"),
            ("a/b", "slash"),
            ("eth0:1", "colon"),
            ("a b", "white space"),
            ("a\tb", "white space"),
            ("a\n", "white space"),
            ("a\u{a0}b", "white space"),
            ("a\u{1b}", "control character"),
            ("a\0", "control character"),
            ("a\"b", "quote"),
            ("a'b", "quote"),
            ("a\\", "backslash"),
            ("!", "exclamation mark"),
            ("veth*", "asterisk"),
        ] {
            let flaw = flaw(text).unwrap_or_default();
            assert!(flaw.contains(why), "{text:?}: {flaw:?}");
        }
    }
}
