//! Splits a rule's text into words without copying them.

use std::borrow::Cow;

use super::RuleError;

/// A word of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word<'a> {
    pub text: Cow<'a, str>,
    /// In quotes, so it is a value whatever it looks like.
    pub is_quoted: bool,
}

/// What is left of a text.
#[derive(Clone, Debug)]
pub(super) struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    /// The next word, if there is one.
    pub(super) fn next_word(&mut self) -> Result<Option<Word<'a>>, RuleError> {
        let rest = self.rest.trim_start();
        if let Some(quoted) = rest.strip_prefix('"') {
            return self.quoted(quoted).map(Some);
        }
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (text, after) = rest.split_at(end);
        self.rest = after;
        match text {
            "" => Ok(None),
            // iptables would begin or end a quoted part in the middle of the word.
            text if text.contains(['"', '\'', '\\']) => Err(RuleError::Quotes),
            text => Ok(Some(Word { text: Cow::Borrowed(text), is_quoted: false })),
        }
    }

    /// In quotes, a backslash escapes the next character.
    fn quoted(&mut self, text: &'a str) -> Result<Word<'a>, RuleError> {
        let plain = text.find(['"', '\\']).ok_or(RuleError::Quotes)?;
        let (text, length) = if text[plain..].starts_with('"') {
            (Cow::Borrowed(&text[..plain]), plain + 1)
        } else {
            let (unescaped, length) = unescaped(text).ok_or(RuleError::Quotes)?;
            (Cow::Owned(unescaped), length)
        };
        // Still behind the opening quote.
        let opening = self.rest.trim_start();
        self.rest = &opening[1 + length..];
        let ends = self.rest.is_empty() || self.rest.starts_with(char::is_whitespace);
        if ends { Ok(Word { text, is_quoted: true }) } else { Err(RuleError::Quotes) }
    }
}

/// The text up to the closing quote, and how many bytes it took with that quote.
fn unescaped(text: &str) -> Option<(String, usize)> {
    let mut found = String::with_capacity(text.len());
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((found, at + 1)),
            '\\' => found.push(characters.next()?.1),
            other => found.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::{Token, tokens};
    use super::*;

    fn split(text: &str) -> Result<Vec<Token>, RuleError> {
        let (mut words, mut found) = (Words::new(text), Vec::new());
        while let Some(word) = words.next_word()? {
            let text = word.text.into_owned();
            found.push(if word.is_quoted { Token::Quoted(text) } else { Token::Bare(text) });
        }
        Ok(found)
    }

    #[test]
    fn quotes_enclose_whole_words() {
        for text in ["--comment \"a", "a\"b\"", "\"a\"b", "a\\", "\"a\\", "it's"] {
            assert_eq!(split(text), Err(RuleError::Quotes), "{text}");
        }
        assert_eq!(split(r#"  "a \"b\" \\c"  x "#).unwrap(), tokens(r#""a \"b\" \\c" x"#));
        assert_eq!(split("").unwrap(), []);
    }

    proptest! {
        #[test]
        fn words_are_those_of_the_canonical_rule(text in "[-a \"\\\\é!/]{0,40}") {
            if let Ok(words) = split(&text) {
                prop_assert_eq!(words, tokens(&text));
            }
        }
    }
}
