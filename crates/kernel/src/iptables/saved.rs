//! Parses the output of `iptables-save`. Pure; any text gives a result.

use std::fmt;

use super::{ChainName, RuleText};

/// The output of `iptables-save`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// In the order of the output.
    pub tables: Vec<SavedTable>,
    /// Tables that exist but cannot be printed: they hold rules that iptables cannot express.
    pub unreadable: Vec<String>,
}

/// A table with its chains and rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedTable {
    /// `filter`, `nat`, …
    pub name: String,
    /// In the order of the output.
    pub chains: Vec<SavedChain>,
    /// In the order of the output, which keeps the order within each chain.
    pub rules: Vec<SavedRule>,
    /// Whether another program switched the table off (`flags dormant`), which `iptables-save` does not show.
    pub is_dormant: bool,
}

/// A chain, without its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedChain {
    /// As iptables prints it.
    pub name: ChainName,
    /// Only built-in chains have one.
    pub policy: Option<String>,
}

/// A rule with the chain that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedRule {
    /// The chain it is in.
    pub chain: ChainName,
    /// Everything behind the name of the chain, as printed.
    pub text: RuleText,
}

impl Saved {
    /// Parses the output; unknown lines are ignored.
    ///
    /// A table with a rule that another program wrote with nft is left out of the output, though the command reports success:
    /// only a comment distinguishes it from an empty one.
    pub fn parse(text: &str) -> Self {
        let mut saved = Self::default();
        for line in text.lines().map(str::trim) {
            if let Some(name) = unreadable(line) {
                saved.unreadable.push(name.to_owned());
            } else if let Some(name) = line.strip_prefix('*') {
                saved.tables.push(SavedTable { name: name.trim().to_owned(), ..SavedTable::default() });
            } else if let Some(table) = saved.tables.last_mut() {
                table.parse_line(line);
            }
        }
        saved
    }

    /// Adds other tables.
    pub(super) fn extend(&mut self, other: Self) {
        self.tables.extend(other.tables);
        self.unreadable.extend(other.unreadable);
    }

    /// The table of this name, if it was saved.
    pub fn table(&self, name: &str) -> Option<&SavedTable> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// The number of rules in all tables.
    pub fn rules(&self) -> usize {
        self.tables.iter().map(|table| table.rules.len()).sum()
    }
}

impl SavedTable {
    fn parse_line(&mut self, line: &str) {
        if let Some(chain) = line.strip_prefix(':') {
            let mut words = chain.split_whitespace();
            if let Some(name) = words.next().and_then(ChainName::from_saved) {
                let policy = words.next().filter(|policy| *policy != "-").map(str::to_owned);
                self.chains.push(SavedChain { name, policy });
            }
        } else if let Some(rule) = without_counters(line).strip_prefix("-A ") {
            let (chain, text) = rule.trim_start().split_once(' ').unwrap_or((rule.trim(), ""));
            if let Some(chain) = ChainName::from_saved(chain) {
                self.rules.push(SavedRule { chain, text: RuleText::from_saved(text.trim()) });
            }
        }
    }

    /// Whether the table has this chain.
    pub fn has_chain(&self, name: &str) -> bool {
        self.chains.iter().any(|chain| chain.name.as_str() == name)
    }
}

/// The table in ``# Table `filter' is incompatible, use 'nft' tool.``
fn unreadable(line: &str) -> Option<&str> {
    let (name, rest) = line.strip_prefix("# Table `")?.split_once('\'')?;
    rest.starts_with(" is incompatible").then_some(name)
}

/// A rule may begin with its packet and byte counters: `[12:3456] -A …`.
fn without_counters(line: &str) -> &str {
    match line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((_, rule)) => rule,
        None => line,
    }
}

impl fmt::Display for Saved {
    /// As `iptables-save` writes it, and `iptables-restore` reads it, without counters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for table in &self.unreadable {
            writeln!(f, "# Table `{table}' is incompatible, use 'nft' tool.")?;
        }
        for table in &self.tables {
            writeln!(f, "*{}", table.name)?;
            for chain in &table.chains {
                writeln!(f, ":{} {} [0:0]", chain.name, chain.policy.as_deref().unwrap_or("-"))?;
            }
            for rule in &table.rules {
                match rule.text.as_str() {
                    "" => writeln!(f, "-A {}", rule.chain)?,
                    text => writeln!(f, "-A {} {text}", rule.chain)?,
                }
            }
            writeln!(f, "COMMIT")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n\
        -A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n-A KUBE-SERVICES\nCOMMIT\n";

    #[test]
    fn what_was_saved_is_read_and_written_back() {
        let saved = Saved::parse(TEXT);
        assert_eq!(saved.to_string(), TEXT);
        let nat = saved.table("nat").unwrap();
        assert_eq!((nat.chains.len(), nat.rules.len(), saved.rules()), (2, 2, 2));
        assert!(nat.has_chain("KUBE-SERVICES") && !nat.has_chain("INPUT") && saved.table("filter").is_none());
    }

    #[test]
    fn comments_and_counters_are_passed_over() {
        let text = TEXT.replace("-A PRE", "[7:420] -A PRE").replace("*nat", "# Generated\n*nat");
        assert_eq!(Saved::parse(&text), Saved::parse(TEXT));
    }

    #[test]
    fn a_table_that_iptables_cannot_tell_is_not_an_empty_one() {
        let text = format!("# Table `filter' is incompatible, use 'nft' tool.\n{TEXT}");
        let saved = Saved::parse(&text);
        assert_eq!((&saved.unreadable[..], saved.tables.len()), (&["filter".to_owned()][..], 1));
        assert_eq!(saved.to_string(), text);
    }

    proptest! {
        #[test]
        fn any_text_can_be_read_and_what_was_read_reads_the_same_again(text in "[*:A \\-\\[\\]\"\\n\\\\xé0-9]{0,200}") {
            let saved = Saved::parse(&text);
            prop_assert_eq!(Saved::parse(&saved.to_string()), saved);
        }
    }
}
