//! The text of rules, made of parts that can be nothing else than what they say.
//!
//! `iptables-restore` reads lines and words, so a value with a space, a quote or a line end in it could become another rule. Text
//! that is not known when the program is built gets into a rule only as a [`Quoted`], a [`Comment`] or a [`ChainName`], and
//! numbers and addresses as what they are; anything else does not compile:
//!
//! ```compile_fail
//! # use ferrule_kernel::iptables::RuleText;
//! let name = String::from("default/web -j ACCEPT");
//! RuleText::build().with("-m comment --comment").with(name.as_str());
//! ```
//!
//! What rules mean is not known here.

use std::borrow::Borrow;
use std::fmt::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;

/// What may stand in a rule.
pub trait RuleArgument: private::Sealed {
    /// Writes it as `iptables-restore` reads it.
    fn write(self, rule: &mut String);
}

mod private {
    pub trait Sealed {}
}

macro_rules! shown_as_it_is {
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

// Texts are those of this program: nobody else's live as long as it does.
shown_as_it_is!(&'static str, u16, u32, IpAddr, SocketAddr, Block, &RuleText, &ChainName, Mark, Probability);

/// A rule behind its chain's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleText(Box<str>);

impl RuleText {
    /// Begins one.
    pub fn build() -> RuleBuilder {
        RuleBuilder(String::new())
    }

    /// One of this program's own.
    pub fn literal(text: &'static str) -> Self {
        Self(text.into())
    }

    /// One as `iptables-save` shows it, which `iptables-restore` reads as the same rule.
    pub(super) fn shown(text: &str) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
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

/// A rule that is being written.
#[derive(Clone, Debug)]
#[must_use]
pub struct RuleBuilder(String);

impl RuleBuilder {
    /// Adds something, with a space before it; nothing if it is empty.
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

    /// Adds a comment, for which iptables has a match of its own.
    pub fn comment(self, text: &str) -> Self {
        self.with("-m comment --comment").with(Comment::new(text))
    }

    /// The rule.
    pub fn done(self) -> RuleText {
        RuleText(self.0.into_boxed_str())
    }
}

/// Any text as one word of a rule: in quotes, with what would end them escaped.
///
/// A line end would end the rule and a zero byte the text, and neither can be escaped: control characters become question marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quoted(String);

impl Quoted {
    /// Of a text.
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

/// What is said about a rule, no longer than iptables keeps it: a rule must be shown as it was written, or it would be written
/// again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment(Quoted);

impl Comment {
    /// More than this iptables cuts off, in both variants.
    pub const MAX_BYTES: usize = 255;

    /// Of a text, as much of it as is kept. A character that does not fit in whole is left out, where iptables would keep a part.
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
    /// One of this program's own.
    pub fn fixed(name: &'static str) -> Self {
        Self(name.into())
    }

    /// A beginning of this program's own, and letters and digits behind it; other characters are left out.
    pub fn numbered(beginning: &'static str, rest: &str) -> Self {
        let rest = rest.chars().filter(char::is_ascii_alphanumeric);
        Self(beginning.chars().chain(rest).collect::<String>().into())
    }

    /// One as `iptables-save` shows it. Nothing that could end a word or begin an option is the name of a chain here.
    pub(super) fn shown(name: &str) -> Option<Self> {
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
    /// Its address.
    pub address: IpAddr,
    /// The length of its prefix.
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

/// A chance, in ten decimals.
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

    use super::super::{Word, words};
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
            assert_eq!(ChainName::shown(name).map(|name| name.to_string()).as_deref(), Some(name));
        }
        for text in ["", "-A", "!", "a b", "a\"", "a\\", "a\n", "é"] {
            assert_eq!(ChainName::shown(text), None, "{text:?}");
        }
        assert_eq!(ChainName::numbered("KUBE-SVC-", "A2\nCOMMIT -").as_str(), "KUBE-SVC-A2COMMIT");
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
            prop_assert_eq!(words(&quoted(&text)), vec![Word::Quoted(text)]);
        }

        #[test]
        fn any_text_in_quotes_is_one_word_on_one_line(text in any::<String>()) {
            let quoted = quoted(&text);
            prop_assert_eq!((words(&quoted).len(), quoted.lines().count(), quoted.contains('\0')), (1, 1, false));
        }
    }
}
