//! Arguments to values, by pflag's rules.
//!
//! `--name=value`, `--name value`, switches only as `--name` or `--name=bool`, `_` for `-`, `-v=2`, `-v2`; positional
//! arguments are collected and refused later. The first mistake ends the parse, as in pflag.

use std::collections::BTreeMap;

use super::flags::{self, Flag, Lifecycle};
use super::values::{default_value, parse_value, value_text};
use crate::config::Value;
use crate::config::suggest::closest;
use crate::go::GoDuration;

/// What was said on the command line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandLine {
    given: BTreeMap<&'static str, Value>,
    /// Arguments that belong to no flag.
    pub positional: Vec<String>,
    /// One line for each deprecated flag in use.
    pub notices: Vec<String>,
    /// Whether `-h` or `--help` was among them.
    pub help: bool,
}

/// Why the command line cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    /// No flag has this name.
    #[error("unknown flag: --{name}{}", did_you_mean(.suggestion.as_deref()))]
    Unknown {
        /// As written, up to the `=`.
        name: String,
        /// The flag that may have been meant.
        suggestion: Option<String>,
    },
    /// No flag has this letter.
    #[error("unknown shorthand flag: {letter:?} in -{group}{}", did_you_mean(.suggestion.as_deref()))]
    UnknownShort {
        /// The letter.
        letter: char,
        /// All letters of the argument.
        group: String,
        /// The flag that may have been meant.
        suggestion: Option<String>,
    },
    /// `--=x`, `---x`
    #[error("bad flag syntax: {0}")]
    Syntax(String),
    /// The last argument wants a value.
    #[error("flag needs an argument: {0}")]
    MissingValue(String),
    /// The value does not fit.
    #[error("invalid argument {value:?} for {flag:?} flag: {reason}")]
    Invalid {
        /// The value.
        value: String,
        /// The flag as pflag names it.
        flag: String,
        /// What is wrong.
        reason: String,
    },
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map(|name| format!(", did you mean --{name}?")).unwrap_or_default()
}

/// Reads all arguments; the program's own name is not among them.
pub fn parse<S: AsRef<str>>(arguments: &[S]) -> Result<CommandLine, FlagError> {
    let mut line = CommandLine::default();
    let mut rest = arguments.iter().map(AsRef::as_ref);
    while let Some(argument) = rest.next() {
        if argument == "--" {
            line.positional.extend(rest.by_ref().map(str::to_owned));
        } else if let Some(long) = argument.strip_prefix("--") {
            line.long(long, &mut rest)?;
        } else if argument.len() > 1 && argument.starts_with('-') {
            line.short(&argument[1..], &mut rest)?;
        } else {
            line.positional.push(argument.to_owned());
        }
    }
    Ok(line)
}

impl CommandLine {
    /// Whether the flag was given.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// The flags that were given, with their values.
    pub fn given(&self) -> impl Iterator<Item = (&'static Flag, &Value)> {
        self.given.iter().filter_map(|(name, value)| flags::find(name).map(|flag| (flag, value)))
    }

    /// A flag's value, given or default.
    pub fn value(&self, name: &str) -> Value {
        match self.given.get(name) {
            Some(value) => value.clone(),
            None => flags::find(name).map_or(Value::Absent, default_value),
        }
    }

    /// A flag's value as Go prints it.
    pub fn text(&self, name: &str) -> String {
        value_text(&self.value(name))
    }

    /// The value of a switch.
    pub fn is_on(&self, name: &str) -> bool {
        self.value(name) == Value::Bool(true)
    }

    /// The value of a duration flag.
    pub fn duration(&self, name: &str) -> GoDuration {
        match self.value(name) {
            Value::Duration(duration) => duration,
            _ => GoDuration::ZERO,
        }
    }

    /// The value of a flag for a whole number.
    pub fn number(&self, name: &str) -> i32 {
        match self.value(name) {
            Value::Int32(number) => number,
            _ => 0,
        }
    }

    /// The values of a list flag.
    pub fn texts(&self, name: &str) -> Vec<String> {
        match self.value(name) {
            Value::TextList(texts) => texts,
            _ => Vec::new(),
        }
    }

    /// The value of an integer flag.
    pub fn integer(&self, name: &str) -> i32 {
        match self.value(name) {
            Value::Int32(value) => value,
            _ => 0,
        }
    }

    fn long<'a>(&mut self, long: &str, rest: &mut impl Iterator<Item = &'a str>) -> Result<(), FlagError> {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        if name.is_empty() || name.starts_with('-') {
            return Err(FlagError::Syntax(format!("--{long}")));
        }
        let flag = flags::find(&name.replace('_', "-")).ok_or_else(|| unknown(name))?;
        let shown = format!("--{}", flag.name);
        let value = match value.or(flag.bare_value()) {
            Some(value) => value,
            None => rest.next().ok_or(FlagError::MissingValue(shown))?,
        };
        self.set(flag, value)
    }

    /// `-v=2`, `-v2`, `-v 2`, `-h`; letters of switches may stand together.
    fn short<'a>(&mut self, group: &str, rest: &mut impl Iterator<Item = &'a str>) -> Result<(), FlagError> {
        let mut letters = group.chars();
        while let Some(letter) = letters.next() {
            let flag = flags::find_short(letter).ok_or_else(|| unknown_short(letter, group))?;
            let after = letters.as_str();
            let value = match (after.strip_prefix('='), flag.bare_value()) {
                (Some(value), _) => value,
                (None, Some(bare)) => {
                    self.set(flag, bare)?;
                    continue;
                }
                (None, None) if !after.is_empty() => after,
                (None, None) => {
                    rest.next().ok_or_else(|| FlagError::MissingValue(format!("{letter:?} in -{group}")))?
                }
            };
            return self.set(flag, value);
        }
        Ok(())
    }

    fn set(&mut self, flag: &'static Flag, text: &str) -> Result<(), FlagError> {
        let value = parse_value(flag, text, self.given.get(flag.name)).map_err(|reason| {
            let shown = flag.short.map_or_else(String::new, |letter| format!("-{letter}, "));
            FlagError::Invalid { value: text.to_owned(), flag: format!("{shown}--{}", flag.name), reason }
        })?;
        if flag.name == flags::HELP {
            self.help = value == Value::Bool(true);
        }
        if let Lifecycle::Deprecated(hint) = flag.lifecycle
            && !self.is_given(flag.name)
        {
            self.notices.push(format!("Flag --{} has been deprecated, {hint}", flag.name));
        }
        self.given.insert(flag.name, value);
        Ok(())
    }
}

fn unknown(name: &str) -> FlagError {
    FlagError::Unknown { name: name.to_owned(), suggestion: suggestion(name) }
}

/// `-config` is more often `--config` with a dash missing than a group of letters.
fn unknown_short(letter: char, group: &str) -> FlagError {
    let word = group.split('=').next().unwrap_or(group);
    let suggestion = if word.chars().count() > 2 { suggestion(word) } else { None };
    FlagError::UnknownShort { letter, group: group.to_owned(), suggestion }
}

fn suggestion(name: &str) -> Option<String> {
    let shown = flags::all().into_iter().filter(|flag| flag.is_shown()).map(|flag| flag.name);
    closest(&name.replace('_', "-"), shown).map(str::to_owned)
}

#[cfg(test)]
mod tests;
