//! The input of `iptables-restore`, built from typed parts.

use std::fmt::{self, Write as _};

use super::{ChainName, RuleText};

/// Changes of tables, applied atomically for each table. Chains that are not named stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreText(String);

impl RestoreText {
    /// A text that is known at compile time.
    pub fn literal(text: &'static str) -> Self {
        Self(text.to_owned())
    }

    /// The text with every line changed, for injected faults.
    pub(crate) fn map_lines(&self, line: impl Fn(&str) -> String) -> Self {
        Self(self.0.lines().map(|old| line(old) + "\n").collect())
    }

    /// Adds the changes of a table; nothing if `write` adds no line.
    pub fn table(&mut self, table: &'static str, write: impl FnOnce(&mut TableText<'_>)) {
        let before = self.0.len();
        let _ = writeln!(self.0, "*{table}");
        let begins = self.0.len();
        write(&mut TableText(&mut self.0));
        if self.0.len() == begins {
            self.0.truncate(before);
        } else {
            self.0.push_str("COMMIT\n");
        }
    }

    /// Adds changes to be applied after these.
    pub fn append(&mut self, later: &Self) {
        self.0.push_str(&later.0);
    }

    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As `iptables-restore` reads it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RestoreText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The changes of one table.
#[derive(Debug)]
pub struct TableText<'a>(&'a mut String);

impl TableText<'_> {
    /// Creates a chain, or flushes it.
    pub fn chain<'c>(&mut self, chain: impl IsChain<'c>) {
        let chain = chain.name();
        self.line(format_args!(":{chain} - [0:0]"));
    }

    /// Appends a rule to a chain.
    pub fn append<'c>(&mut self, chain: impl IsChain<'c>, rule: &RuleText) {
        let chain = chain.name();
        self.line(format_args!("-A {chain} {rule}"));
    }

    /// Inserts a rule at the top of a chain.
    pub fn insert<'c>(&mut self, chain: impl IsChain<'c>, rule: &RuleText) {
        let chain = chain.name();
        self.line(format_args!("-I {chain} {rule}"));
    }

    /// Deletes a rule from a chain.
    pub fn delete<'c>(&mut self, chain: impl IsChain<'c>, rule: &RuleText) {
        let chain = chain.name();
        self.line(format_args!("-D {chain} {rule}"));
    }

    /// Removes a chain, which must be empty and not in use.
    pub fn remove<'c>(&mut self, chain: impl IsChain<'c>) {
        let chain = chain.name();
        self.line(format_args!("-X {chain}"));
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        // Writing to memory does not fail.
        let _ = writeln!(self.0, "{line}");
    }
}

/// What names a chain: a name that was checked, or one of this program's own.
pub trait IsChain<'a>: private::Sealed {
    /// The name.
    fn name(self) -> &'a str;
}

mod private {
    pub trait Sealed {}
    impl Sealed for &super::ChainName {}
    impl Sealed for &'static str {}
}

impl<'a> IsChain<'a> for &'a ChainName {
    fn name(self) -> &'a str {
        self.as_str()
    }
}

impl IsChain<'static> for &'static str {
    fn name(self) -> &'static str {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_with_nothing_to_change_are_left_out() {
        let mut text = RestoreText::default();
        text.table("filter", |_| {});
        text.table("nat", |table| {
            table.chain("X");
            table.append(&ChainName::fixed("X"), &RuleText::literal("-j RETURN"));
        });
        assert_eq!(text.as_str(), "*nat\n:X - [0:0]\n-A X -j RETURN\nCOMMIT\n");
        assert_eq!(text.map_lines(str::to_lowercase).as_str(), "*nat\n:x - [0:0]\n-a x -j return\ncommit\n");
    }
}
