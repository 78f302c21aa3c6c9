//! One option of a rule's text, while it is being parsed.

use std::borrow::Cow;
use std::str::FromStr;

use super::words::Words;
use super::{Negatable, RuleError};
use crate::nft::Family;

/// An option, and the words behind it.
pub(super) struct OptionCall<'w, 'a> {
    /// With its dashes.
    pub name: &'w str,
    pub is_negated: bool,
    pub family: Family,
    pub words: &'w mut Words<'a>,
    /// The options that the same extension has taken.
    pub taken: &'w [&'a str],
}

impl<'a> OptionCall<'_, 'a> {
    /// The next word.
    pub(super) fn value(&mut self) -> Result<Cow<'a, str>, RuleError> {
        let word = self.words.next_word()?;
        word.map(|word| word.text).ok_or_else(|| RuleError::MissingValue(self.name.to_owned()))
    }

    /// The next word, as what it stands for.
    pub(super) fn parsed<T>(&mut self, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, RuleError> {
        let value = self.value()?;
        parse(&value).ok_or_else(|| self.bad(&value))
    }

    pub(super) fn number<T: FromStr>(&mut self) -> Result<T, RuleError> {
        self.parsed(|value| value.parse().ok())
    }

    /// With the sign in front of it.
    pub(super) fn negatable<T>(&self, value: T) -> Negatable<T> {
        Negatable { is_negated: self.is_negated, value }
    }

    /// Fails if there is a sign in front of it.
    pub(super) fn plain(&self) -> Result<(), RuleError> {
        if self.is_negated { Err(RuleError::NotNegatable(self.name.to_owned())) } else { Ok(()) }
    }

    /// Fails if one of these options was there before.
    pub(super) fn excludes(&self, others: &[&str]) -> Result<(), RuleError> {
        let is_taken = self.taken.iter().any(|name| others.contains(name));
        if is_taken { Err(RuleError::Repeated(self.name.to_owned())) } else { Ok(()) }
    }

    pub(super) fn bad(&self, value: &str) -> RuleError {
        RuleError::BadValue { option: self.name.to_owned(), value: value.to_owned() }
    }
}

/// A number, hexadecimal behind `0x`.
pub(super) fn any_base(text: &str) -> Option<u32> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
