//! The lines of a [`RestoreText`](crate::iptables::RestoreText), in the order of `iptables-restore --noflush`.

use super::parse::is_chain;
use super::tables::BuiltInTable;
use super::{RuleError, is_opaque};

/// One line with its number, from one on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line<'a> {
    pub number: usize,
    pub text: &'a str,
    pub table: &'static BuiltInTable,
    pub change: Change<'a>,
}

/// What a line does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change<'a> {
    /// The changes of the line's table begin.
    Begin,
    /// Creates a chain, or empties it.
    Declare(&'a str),
    /// Appends a rule.
    Append(RuleOf<'a>),
    /// Puts a rule at the top.
    Insert(RuleOf<'a>),
    /// Deletes the first rule that means the same.
    Delete(RuleOf<'a>),
    /// Removes a chain.
    Remove(&'a str),
}

/// A rule's text and its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RuleOf<'a> {
    pub chain: &'a str,
    pub text: &'a str,
}

/// A line that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadLine<'a> {
    pub number: usize,
    pub text: &'a str,
    pub error: RuleError,
}

/// Splits a text into lines.
pub(super) fn lines(text: &str) -> Lines<'_> {
    Lines { rest: text.lines().enumerate(), table: None }
}

pub(super) struct Lines<'a> {
    rest: std::iter::Enumerate<std::str::Lines<'a>>,
    table: Option<&'static BuiltInTable>,
}

impl<'a> Iterator for Lines<'a> {
    type Item = Result<Line<'a>, BadLine<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (index, text) = self.rest.next()?;
            let number = index + 1;
            match self.parse(text) {
                Ok(Some((table, change))) => return Some(Ok(Line { number, text, table, change })),
                Ok(None) => {}
                Err(error) => return Some(Err(BadLine { number, text, error })),
            }
        }
    }
}

impl<'a> Lines<'a> {
    /// What a line does; `None` if it does nothing.
    fn parse(&mut self, line: &'a str) -> Result<Option<(&'static BuiltInTable, Change<'a>)>, RuleError> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        if let Some(name) = line.strip_prefix('*') {
            let table = BuiltInTable::named(name).ok_or_else(|| RuleError::UnknownTable(name.to_owned()))?;
            self.table = Some(table);
            return Ok(Some((table, Change::Begin)));
        }
        let table = self.table.ok_or(RuleError::UnknownLine)?;
        if line == "COMMIT" {
            self.table = None;
            return Ok(None);
        }
        change(line, table).map(|change| Some((table, change)))
    }
}

fn change<'a>(line: &'a str, table: &BuiltInTable) -> Result<Change<'a>, RuleError> {
    let of_users = |name: &'a str| match table.chain(name) {
        Some(_) => Err(RuleError::BuiltIn(name.to_owned())),
        None => named(name),
    };
    if let Some(rest) = line.strip_prefix(':') {
        let mut words = rest.split_whitespace();
        let name = of_users(words.next().unwrap_or_default())?;
        // Behind it are counters.
        return if words.next() == Some("-") {
            Ok(Change::Declare(name))
        } else {
            Err(RuleError::UnknownLine)
        };
    }
    let (command, rest) = line.split_once(' ').ok_or(RuleError::UnknownLine)?;
    let (chain, text) = rest.trim_start().split_once(' ').unwrap_or((rest.trim(), ""));
    let rule = || named(chain).map(|chain| RuleOf { chain, text: text.trim() });
    match command {
        "-A" => rule().map(Change::Append),
        "-I" => rule().map(Change::Insert),
        "-D" => rule().map(Change::Delete),
        "-X" if text.is_empty() => of_users(chain).map(Change::Remove),
        _ => Err(RuleError::UnknownLine),
    }
}

fn named(name: &str) -> Result<&str, RuleError> {
    if is_chain(name) { Ok(name) } else { Err(RuleError::BadChain(name.to_owned())) }
}

impl RuleOf<'_> {
    /// Whether it was read from a rule that is only known in part.
    pub(super) fn is_opaque(&self) -> bool {
        is_opaque(self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> Vec<(usize, RuleError)> {
        lines(text).filter_map(Result::err).map(|bad| (bad.number, bad.error)).collect()
    }

    #[test]
    fn every_line_has_its_number_and_its_table() {
        let text = "# x\n*nat\n:A - [0:0]\n\n-A A -j RETURN\n-I OUTPUT -j A\n-D A\n-X A\nCOMMIT\n*filter\n-X B\nCOMMIT\n";
        let found: Vec<_> = lines(text).map(|line| line.unwrap()).collect();
        let numbers: Vec<_> = found.iter().map(|line| (line.number, line.table.name)).collect();
        assert_eq!(
            numbers,
            [
                (2, "nat"),
                (3, "nat"),
                (5, "nat"),
                (6, "nat"),
                (7, "nat"),
                (8, "nat"),
                (10, "filter"),
                (11, "filter")
            ]
        );
        assert_eq!(found[2].change, Change::Append(RuleOf { chain: "A", text: "-j RETURN" }));
        assert_eq!(found[4].change, Change::Delete(RuleOf { chain: "A", text: "" }));
        assert_eq!(found[5].change, Change::Remove("A"));
    }

    #[test]
    fn what_is_not_a_change_is_an_error() {
        for line in ["-F A", "-N A", "-P INPUT DROP", "-X", "-R A 1", "nonsense", "-X A B", ":A DROP [0:0]"] {
            assert_eq!(errors(&format!("*nat\n{line}\n")), [(2, RuleError::UnknownLine)], "{line}");
        }
        assert_eq!(errors("*other\n"), [(1, RuleError::UnknownTable("other".to_owned()))]);
        assert_eq!(errors("-A A\n"), [(1, RuleError::UnknownLine)]);
        assert_eq!(errors("*nat\nCOMMIT\n-A A\n"), [(3, RuleError::UnknownLine)]);
    }

    #[test]
    fn built_in_chains_are_neither_emptied_nor_removed() {
        for line in [":INPUT - [0:0]", ":INPUT ACCEPT [0:0]", "-X INPUT"] {
            let expected = RuleError::BuiltIn("INPUT".to_owned());
            assert_eq!(errors(&format!("*nat\n{line}\n")), [(2, expected)], "{line}");
        }
        assert_eq!(errors("*nat\n:FORWARD - [0:0]\n"), [], "nat has no such chain");
    }
}
