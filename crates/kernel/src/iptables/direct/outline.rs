//! What has to be known about the tables before a text can be written.

use std::collections::BTreeSet;

use super::lines::{BadLine, Change, lines};
use super::tables::BuiltInChain;

/// What a text depends on.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Outline<'a> {
    /// Built-in chains that rules are written into: they may not exist yet.
    pub built_in: Vec<(&'static str, &'static BuiltInChain)>,
    /// Chains that rules are deleted from.
    pub searched: BTreeSet<(&'static str, &'a str)>,
    /// Whether a rule names an ipset.
    pub names_sets: bool,
}

impl<'a> Outline<'a> {
    /// Reads all lines, but no rule.
    pub(super) fn new(text: &'a str) -> Result<Self, BadLine<'a>> {
        let mut outline = Self { names_sets: text.contains("--match-set"), ..Self::default() };
        for line in lines(text) {
            let line = line?;
            let table = line.table;
            let used = match line.change {
                Change::Append(rule) | Change::Insert(rule) => Some(rule.chain),
                Change::Delete(rule) => {
                    outline.searched.insert((table.name, rule.chain));
                    None
                }
                Change::Begin | Change::Declare(_) | Change::Remove(_) => None,
            };
            let entry = used.and_then(|name| Some((table.name, table.chain(name)?)));
            if let Some(entry) = entry.filter(|entry| !outline.built_in.contains(entry)) {
                outline.built_in.push(entry);
            }
        }
        Ok(outline)
    }

    /// Whether the result depends on what the tables hold.
    pub(super) fn depends_on_tables(&self) -> bool {
        !self.built_in.is_empty() || !self.searched.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_built_in_chains_and_deletions_need_the_tables() {
        let outline = Outline::new("*nat\n:A - [0:0]\n-A A -j B\n-I B -j A\n-X C\nCOMMIT\n").unwrap();
        assert!(!outline.depends_on_tables() && !outline.names_sets);
        let outline =
            Outline::new("*nat\n-I INPUT -j A\n-A INPUT -j B\n-D A -m set --match-set X dst\n").unwrap();
        assert_eq!((outline.built_in.len(), outline.searched.len()), (1, 1));
        assert!(outline.names_sets);
    }
}
