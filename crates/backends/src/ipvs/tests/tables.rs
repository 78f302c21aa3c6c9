//! iptables' tables in memory.

use std::sync::{Arc, Mutex};

use ferrule_kernel::iptables::{IptablesError, RestoreText, RuleText, Saved};
use ferrule_kernel::nft::Family;
use ferrule_kernel::port::XTables;
use ferrule_kernel::subprocess::Cancel;

/// Chains with their rules, in the order in which they were made: `(table, chain, rules)`.
type Chains = Vec<(String, String, Vec<String>)>;

/// Tables that understand what a mode writes. Clones share them.
#[derive(Clone, Debug)]
pub struct MemoryTables {
    family: Family,
    chains: Arc<Mutex<Chains>>,
    /// How many texts were written.
    writes: Arc<Mutex<usize>>,
    is_broken: Arc<Mutex<bool>>,
}

impl MemoryTables {
    pub fn new(family: Family) -> Self {
        let built_in = [
            ("nat", ["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"].as_slice()),
            ("filter", ["INPUT", "FORWARD", "OUTPUT"].as_slice()),
        ];
        let of_table = |(table, chains): (&str, &[&str])| {
            chains.iter().map(|chain| (table.to_owned(), (*chain).to_owned(), Vec::new())).collect::<Vec<_>>()
        };
        let chains = built_in.into_iter().flat_map(of_table).collect();
        Self {
            family,
            chains: Arc::new(Mutex::new(chains)),
            writes: Arc::default(),
            is_broken: Arc::default(),
        }
    }

    /// The rules of a chain.
    pub fn rules(&self, table: &str, chain: &str) -> Vec<String> {
        let chains = self.chains.lock().unwrap();
        let found = chains.iter().find(|(of, name, _)| (of.as_str(), name.as_str()) == (table, chain));
        found.map(|(_, _, rules)| rules.clone()).unwrap_or_default()
    }

    /// How many texts were written since the last call.
    pub fn take_writes(&self) -> usize {
        std::mem::take(&mut self.writes.lock().unwrap())
    }

    /// Empties a chain, as another program would.
    pub fn empty(&self, table: &str, chain: &str) {
        self.edit(table, chain, Vec::clear);
    }

    /// Turns the order of a chain's rules around.
    pub fn reverse(&self, table: &str, chain: &str) {
        self.edit(table, chain, |rules| rules.reverse());
    }

    /// Lets every write fail, or none.
    pub fn break_writes(&self, is_broken: bool) {
        *self.is_broken.lock().unwrap() = is_broken;
    }

    fn edit(&self, table: &str, chain: &str, edit: impl FnOnce(&mut Vec<String>)) {
        let mut chains = self.chains.lock().unwrap();
        let at = chains.iter().position(|(of, name, _)| (of.as_str(), name.as_str()) == (table, chain));
        let at = at.unwrap_or_else(|| {
            chains.push((table.to_owned(), chain.to_owned(), Vec::new()));
            chains.len() - 1
        });
        edit(&mut chains[at].2);
    }

    fn text(&self) -> String {
        let chains = self.chains.lock().unwrap();
        let mut lines = Vec::new();
        for table in ["nat", "filter"] {
            lines.push(format!("*{table}"));
            let here = || chains.iter().filter(|(of, ..)| of == table);
            lines.extend(here().map(|(_, chain, _)| format!(":{chain} - [0:0]")));
            for (_, chain, rules) in here() {
                lines.extend(rules.iter().map(|rule| format!("-A {chain} {rule}")));
            }
            lines.push("COMMIT\n".to_owned());
        }
        lines.join("\n")
    }

    fn line(&self, table: &str, line: &str) {
        let (command, rest) = line.split_at(1);
        match command {
            ":" => self.edit(table, rest.split(' ').next().unwrap(), Vec::clear),
            "-" => {
                let mut words = rest.splitn(3, ' ');
                let (verb, chain) = (words.next().unwrap(), words.next().unwrap());
                let rule = words.next().unwrap_or_default().to_owned();
                self.edit(table, chain, |rules| match verb {
                    "A" => rules.push(rule),
                    "I" => rules.insert(0, rule),
                    other => panic!("not understood: {other}"),
                });
            }
            _ => panic!("not understood: {line}"),
        }
    }
}

impl XTables for MemoryTables {
    fn family(&self) -> Family {
        self.family
    }

    fn save(&mut self) -> Result<Saved, IptablesError> {
        Ok(Saved::parse(&self.text()))
    }

    fn restore(&mut self, text: &RestoreText) -> Result<(), IptablesError> {
        *self.writes.lock().unwrap() += 1;
        if *self.is_broken.lock().unwrap() {
            return Err(IptablesError::Unreadable { family: self.family, table: "nat".to_owned() });
        }
        let mut table = "";
        for line in text.as_str().lines() {
            match line.strip_prefix('*') {
                Some(name) => table = name,
                None if line == "COMMIT" => {}
                None => self.line(table, line),
            }
        }
        Ok(())
    }

    fn save_tables(&mut self, _: &[&'static str], _: &Cancel) -> Result<Saved, IptablesError> {
        self.save()
    }

    fn test(&mut self, _: &RestoreText) -> Result<(), IptablesError> {
        Ok(())
    }

    fn chain_rules(&mut self, table: &str, chain: &str) -> Result<Option<Vec<RuleText>>, IptablesError> {
        let saved = self.save()?;
        let table = saved.table(table).filter(|table| table.has_chain(chain));
        Ok(table.map(|table| {
            let rules = table.rules.iter().filter(|rule| rule.chain.as_str() == chain);
            rules.map(|rule| rule.text.clone()).collect()
        }))
    }
}
