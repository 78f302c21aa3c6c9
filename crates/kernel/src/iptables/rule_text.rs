//! The text of rules, built from typed parts so that no value can inject an option.
//!
//! `iptables-restore` splits lines into words, so a value with a space, a quote or a line end could become another rule. Text
//! that is not known at compile time gets into a rule only as a [`Quoted`], a [`Comment`] or a [`ChainName`], numbers and
//! addresses as their types; anything else does not compile:
//!
//! ```compile_fail
//! # use ferrule_kernel::iptables::RuleText;
//! let name = String::from("default/web -j ACCEPT");
//! RuleText::build().with("-m comment --comment").with(name.as_str());
//! ```
//!
//! Knows nothing of what rules mean.

use std::borrow::Borrow;
use std::fmt::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;

/// A type that may be written into a rule.
pub trait RuleArgument: private::Sealed {
    /// Appends the argument as `iptables-restore` reads it.
    fn write(self, rule: &mut String);
}

mod private {
    pub trait Sealed {}
}

macro_rules! display_as_argument {
    ($($kind:ty),*) => {$(
        impl private::Sealed for $kind {}

        impl RuleArgument for $kind {
            fn write(self, rule: &mut String) {
                // Writing to memory does not fail.
                let _ = write!(rule, "{self}");
            }
        }
    )*};
}

// `&'static str` is text known at compile time.
display_as_argument!(
    &'static str,
    u16,
    u32,
    IpAddr,
    SocketAddr,
    Block,
    &RuleText,
    &ChainName,
    Mark,
    Probability
);

/// A rule without the name of its chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleText(Box<str>);

impl RuleText {
    /// Starts an empty rule.
    pub fn build() -> RuleBuilder {
        RuleBuilder(String::new())
    }

    /// A rule that is known at compile time.
    pub fn literal(text: &'static str) -> Self {
        Self(text.into())
    }

    /// A rule as `iptables-save` prints it, which `iptables-restore` reads as the same rule.
    pub(super) fn from_saved(text: &str) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is another program's rule that was only understood in part.
    pub fn is_opaque(&self) -> bool {
        super::direct::is_opaque(&self.0)
    }
}

impl Deref for RuleText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RuleText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Builds a [`RuleText`].
#[derive(Clone, Debug)]
#[must_use]
pub struct RuleBuilder(String);

impl RuleBuilder {
    /// Adds an argument with a space before it; an empty one adds nothing.
    pub fn with(mut self, argument: impl RuleArgument) -> Self {
        let before = self.0.len();
        if before > 0 {
            self.0.push(' ');
        }
        let begins = self.0.len();
        argument.write(&mut self.0);
        if self.0.len() == begins {
            self.0.truncate(before);
        }
        self
    }

    /// Adds the comment match.
    pub fn comment(self, text: &str) -> Self {
        self.with("-m comment --comment").with(Comment::new(text))
    }

    /// The rule.
    pub fn done(self) -> RuleText {
        RuleText(self.0.into_boxed_str())
    }
}

/// Any text as one word of a rule, quoted and escaped.
///
/// A line end would end the rule and a zero byte the text, and neither can be escaped: control characters become `?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quoted(String);

impl Quoted {
    /// Replaces control characters.
    pub fn new(text: &str) -> Self {
        Self(text.chars().map(|character| if character.is_control() { '?' } else { character }).collect())
    }
}

impl private::Sealed for Quoted {}

impl RuleArgument for Quoted {
    fn write(self, rule: &mut String) {
        rule.push('"');
        for character in self.0.chars() {
            if matches!(character, '"' | '\\') {
                rule.push('\\');
            }
            rule.push(character);
        }
        rule.push('"');
    }
}

/// A rule's comment, cut to the length that iptables keeps: otherwise every verification would find a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment(Quoted);

impl Comment {
    /// Both variants of iptables truncate longer comments.
    pub const MAX_BYTES: usize = 255;

    /// Cuts the text. A character that does not fit is left out, where iptables would keep some of its bytes.
    pub fn new(text: &str) -> Self {
        let mut quoted = Quoted::new(text);
        let end = quoted.0.floor_char_boundary(Self::MAX_BYTES);
        quoted.0.truncate(end);
        Self(quoted)
    }
}

impl private::Sealed for Comment {}

impl RuleArgument for Comment {
    fn write(self, rule: &mut String) {
        self.0.write(rule);
    }
}

/// The name of a chain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainName(Box<str>);

impl ChainName {
    /// A name that is known at compile time.
    pub fn fixed(name: &'static str) -> Self {
        Self(name.into())
    }

    /// A prefix known at compile time, then the ASCII letters and digits of `rest`.
    pub fn with_prefix(prefix: &'static str, rest: &str) -> Self {
        let rest = rest.chars().filter(char::is_ascii_alphanumeric);
        Self(prefix.chars().chain(rest).collect::<String>().into())
    }

    /// A name as `iptables-save` prints it; `None` if it could end a word or begin an option.
    pub(super) fn from_saved(name: &str) -> Option<Self> {
        let is_plain =
            |character: char| character.is_ascii_graphic() && !matches!(character, '"' | '\'' | '\\');
        let is_name = !name.is_empty() && !name.starts_with(['-', '!']) && name.chars().all(is_plain);
        is_name.then(|| Self(name.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for ChainName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for ChainName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A block of addresses: `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The network address.
    pub address: IpAddr,
    /// The prefix length.
    pub length: u8,
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// Bits of a packet's mark: `0x00004000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The bits.
    pub bits: u32,
    /// Whether they are a mask as well: `0x00004000/0x00004000`.
    pub is_masked: bool,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.bits;
        if self.is_masked { write!(f, "{bits:#010x}/{bits:#010x}") } else { write!(f, "{bits:#010x}") }
    }
}

/// A probability, printed with ten decimals as kube-proxy does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probability(pub f64);

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.10}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Token, tokens};
    use super::*;

    fn quoted(text: &str) -> String {
        RuleText::build().with(Quoted::new(text)).done().to_string()
    }

    #[test]
    fn texts_are_one_word_whatever_they_hold() {
        assert_eq!(quoted("default/web -j X"), r#""default/web -j X""#);
        assert_eq!(quoted(r#"a"b\c"#), r#""a\"b\\c""#);
        assert_eq!(quoted("a\nCOMMIT\0"), r#""a?COMMIT?""#);
        assert_eq!(quoted(""), r#""""#);
    }

    #[test]
    fn a_comment_is_cut_where_iptables_cuts_it_but_not_in_the_middle_of_a_character() {
        let length = |text: &str| Comment::new(text).0.0.len();
        assert_eq!(
            (length(&"a".repeat(255)), length(&"a".repeat(256)), length(&"€".repeat(90))),
            (255, 255, 255)
        );
        assert_eq!(length(&format!("aa{}", "€".repeat(90))), 254);
    }

    #[test]
    fn a_name_that_could_be_something_else_is_none() {
        for name in ["KUBE-SVC-X", "DOCKER", "f2b:sshd", "cali+x"] {
            assert_eq!(ChainName::from_saved(name).map(|name| name.to_string()).as_deref(), Some(name));
        }
        for text in ["", "-A", "!", "a b", "a\"", "a\\", "a\n", "é"] {
            assert_eq!(ChainName::from_saved(text), None, "{text:?}");
        }
        assert_eq!(ChainName::with_prefix("KUBE-SVC-", "A2\nCOMMIT -").as_str(), "KUBE-SVC-A2COMMIT");
    }

    #[test]
    fn empty_parts_leave_no_gap() {
        let nothing = RuleText::default();
        let rule = RuleText::build()
            .with(&nothing)
            .with("-d")
            .with(IpAddr::from([10, 0, 0, 1]))
            .with(&nothing)
            .with("-j X");
        assert_eq!(rule.done().as_str(), "-d 10.0.0.1 -j X");
    }

    proptest! {
        #[test]
        fn a_text_in_quotes_reads_as_itself(text in "\\PC{0,80}") {
            prop_assert_eq!(tokens(&quoted(&text)), vec![Token::Quoted(text)]);
        }

        #[test]
        fn any_text_in_quotes_is_one_word_on_one_line(text in any::<String>()) {
            let quoted = quoted(&text);
            prop_assert_eq!((tokens(&quoted).len(), quoted.lines().count(), quoted.contains('\0')), (1, 1, false));
        }
    }
}
