//! Arguments of the form `--name=value`, as the longer commands take them.

use anyhow::{Context, Result, bail};
use jiff::Timestamp;

/// Values by name, each given once.
#[derive(Debug)]
pub struct Arguments<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Arguments<'a> {
    /// Reads them; every one must have one of these names.
    pub fn parse(words: &[&'a str], names: &[&str]) -> Result<Self> {
        let mut values: Vec<(&str, &str)> = Vec::new();
        for word in words {
            let parts = word.strip_prefix("--").and_then(|word| word.split_once('='));
            let (name, value) = parts.with_context(|| format!("{word:?} is not --name=value"))?;
            if !names.contains(&name) {
                bail!("there is no --{name}, only --{}", names.join(", --"));
            }
            if values.iter().any(|(other, _)| *other == name) {
                bail!("--{name} is given twice");
            }
            values.push((name, value));
        }
        Ok(Self(values))
    }

    /// A value that must be there.
    pub fn required(&self, name: &str) -> Result<&'a str> {
        self.optional(name).with_context(|| format!("--{name}= is missing"))
    }

    /// A value that may be missing.
    pub fn optional(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(other, _)| *other == name).map(|(_, value)| *value)
    }
}

/// Reads a time as `SOURCE_DATE_EPOCH` has it.
pub fn seconds_since_1970(text: &str) -> Result<Timestamp> {
    let seconds = text.parse().with_context(|| format!("{text:?} is not a number of seconds since 1970"))?;
    Ok(Timestamp::from_second(seconds)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_name() {
        let arguments = Arguments::parse(&["--out=a=b", "--arch=amd64"], &["out", "arch", "add"]);
        let arguments = arguments.expect("all are known");
        assert_eq!(arguments.required("out").ok(), Some("a=b"));
        assert_eq!(arguments.optional("add"), None);
        assert!(arguments.required("add").is_err());
    }

    #[test]
    fn a_typing_error_is_not_ignored() {
        for words in [&["--ouT=x"][..], &["out=x"], &["--out"], &["--out=x", "--out=y"]] {
            assert!(Arguments::parse(words, &["out"]).is_err(), "{words:?}");
        }
    }

    #[test]
    fn times_are_seconds() {
        assert_eq!(seconds_since_1970("1795011097").expect("a time").to_string(), "2026-11-18T14:11:37Z");
        assert!(seconds_since_1970("today").is_err());
    }
}
