//! A fixed number of iptables chains, for modes whose Services are not rules: ipvs, userspace.
//!
//! Others' chains and rules are never touched. Where the kernel counts changes, rules that no program can have touched are not read.

mod opened;
mod watch;

use std::collections::BTreeMap;

use ferrule_kernel::iptables::{CanonicalRule, ChainName, IptablesError, RestoreText, RuleText, Saved};
use ferrule_kernel::port::XTables;
use ferrule_kernel::subprocess::Cancel;

pub(crate) use opened::{AnyTables, OpenedTables, in_use, open, watch};

/// The tables in the order in which they are written: what refuses is there before what is refused can arrive.
const TABLES: [&str; 2] = ["filter", "nat"];

/// Chains, and the jumps that lead into them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StaticRules {
    pub chains: Vec<StaticChain>,
    pub jumps: &'static [Jump],
}

/// A chain that is ours alone, with its rules in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StaticChain {
    pub table: &'static str,
    pub name: &'static str,
    pub rules: Vec<RuleText>,
    pub order: RuleOrder,
}

/// Whether the order of a chain's rules matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleOrder {
    Fixed,
    /// kube-proxy writes them in any order, and what it left is not rewritten for that.
    Any,
}

/// A rule of ours in a built-in chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Jump {
    pub table: &'static str,
    pub from: &'static str,
    /// Where it is put if it is missing; where it is found, it stays.
    pub at: Position,
    pub rule: &'static str,
}

/// The end of a chain where a rule is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    First,
    Last,
}

/// What has to be written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Correction {
    pub text: RestoreText,
    /// How many chains and rules.
    pub objects: usize,
    /// The chains, for the log.
    pub chains: Vec<&'static str>,
}

/// The rules of chains, as they were read. A chain that is missing is not in it.
pub(crate) type ChainsRead = BTreeMap<(&'static str, &'static str), Vec<CanonicalRule>>;

impl Jump {
    /// Whether it is among these rules.
    pub(crate) fn is_in(&self, rules: &[CanonicalRule]) -> bool {
        rules.contains(&CanonicalRule::parse(self.rule))
    }
}

impl StaticRules {
    /// The same without the tables that are not named.
    pub(crate) fn of_tables(&self, tables: &[&str]) -> Self {
        let chains = self.chains.iter().filter(|chain| tables.contains(&chain.table)).cloned();
        Self { chains: chains.collect(), jumps: self.jumps }
    }

    /// Every chain that matters: ours, and those that jump to them.
    fn chains_to_read(&self) -> Vec<(&'static str, &'static str)> {
        let ours = self.chains.iter().map(|chain| (chain.table, chain.name));
        let mut chains: Vec<_> = ours.chain(self.jumps.iter().map(|jump| (jump.table, jump.from))).collect();
        chains.sort_unstable();
        chains.dedup();
        chains
    }

    /// What has to be written so that the tables hold these rules.
    fn corrections(&self, read: &ChainsRead) -> Correction {
        let mut correction = Correction::default();
        for table in TABLES {
            let chains: Vec<_> = self.chains.iter().filter(|chain| chain.table == table).collect();
            if chains.is_empty() {
                continue;
            }
            let wrong = chains.into_iter().filter(|chain| !chain.is_in(read)).collect::<Vec<_>>();
            let jumps = self.jumps.iter().filter(|jump| jump.table == table);
            let missing = jumps
                .filter(|jump| read.get(&(jump.table, jump.from)).is_none_or(|rules| !jump.is_in(rules)));
            correction.write(table, &wrong, &missing.collect::<Vec<_>>());
        }
        correction
    }
}

impl StaticChain {
    fn is_in(&self, read: &ChainsRead) -> bool {
        let there = read.get(&(self.table, self.name));
        there.is_some_and(|there| {
            let (mut there, mut wanted) = (there.clone(), canonical(&self.rules));
            if self.order == RuleOrder::Any {
                there.sort_unstable();
                wanted.sort_unstable();
            }
            there == wanted
        })
    }
}

impl Correction {
    fn write(&mut self, table: &'static str, chains: &[&StaticChain], jumps: &[&Jump]) {
        if chains.is_empty() && jumps.is_empty() {
            return;
        }
        self.text.table(table, |lines| {
            let names: Vec<ChainName> = chains.iter().map(|chain| ChainName::fixed(chain.name)).collect();
            // Chains first: rules jump from one to the other.
            for name in &names {
                lines.chain(name);
            }
            for (name, chain) in names.iter().zip(chains) {
                chain.rules.iter().for_each(|rule| lines.append(name, rule));
            }
            for jump in jumps {
                let rule = RuleText::literal(jump.rule);
                match jump.at {
                    Position::First => lines.insert(jump.from, &rule),
                    Position::Last => lines.append(&ChainName::fixed(jump.from), &rule),
                }
            }
        });
        self.objects += chains.iter().map(|chain| 1 + chain.rules.len()).sum::<usize>() + jumps.len();
        self.chains.extend(chains.iter().map(|chain| chain.name));
        self.chains.extend(jumps.iter().map(|jump| jump.from));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.objects == 0
    }
}

/// Keeps such rules in one family's tables.
pub(crate) struct StaticTables<K> {
    kernel: K,
    /// What the tables hold, as far as we know.
    known: Option<StaticRules>,
    /// The generation at which they were known to hold it, where the kernel counts changes.
    proven_at: Option<u32>,
    /// Whether they are to be read before anything is written.
    is_doubted: bool,
}

impl<K: XTables> StaticTables<K> {
    /// Reads nothing yet.
    pub(crate) fn new(kernel: K) -> Self {
        Self { kernel, known: None, proven_at: None, is_doubted: false }
    }

    /// The netlink portid that notifications of our own commits carry, where there are any.
    pub(crate) fn portid(&self) -> Option<u32> {
        self.kernel.portid()
    }

    /// The next sync reads what is there, unless no program can have touched it.
    pub(crate) fn doubt(&mut self) {
        self.is_doubted = true;
    }

    /// Writes what differs from what was written last; what is not known is read.
    pub(crate) fn sync(&mut self, wanted: &StaticRules) -> Result<Correction, IptablesError> {
        if self.is_doubted && !self.is_untouched()? {
            self.known = None;
        }
        self.is_doubted = false;
        if self.known.as_ref() == Some(wanted) {
            return Ok(Correction::default());
        }
        let correction = match self.known.take() {
            Some(known) => {
                let mut read = ChainsRead::new();
                for chain in &known.chains {
                    let rules = chain.rules.iter().map(|rule| CanonicalRule::parse(rule)).collect();
                    read.insert((chain.table, chain.name), rules);
                }
                let is_written = |jump: &&Jump| known.chains.iter().any(|chain| chain.table == jump.table);
                for jump in known.jumps.iter().filter(is_written) {
                    let rules: &mut Vec<_> = read.entry((jump.table, jump.from)).or_default();
                    rules.push(CanonicalRule::parse(jump.rule));
                }
                wanted.corrections(&read)
            }
            None => self.compare(wanted)?,
        };
        self.write(wanted, correction)
    }

    /// What would be written if everything were read.
    pub(crate) fn compare(&mut self, wanted: &StaticRules) -> Result<Correction, IptablesError> {
        let before = self.kernel.generation()?;
        let read = self.read(wanted)?;
        let now = self.kernel.generation()?;
        let correction = wanted.corrections(&read);
        self.proven_at = now.filter(|_| before == now && correction.is_empty());
        Ok(correction)
    }

    /// The rules of one of the chains, if it is there.
    pub(crate) fn chain(&mut self, table: &str, chain: &str) -> Result<Option<Vec<RuleText>>, IptablesError> {
        self.kernel.chain_rules(table, chain)
    }

    fn write(&mut self, wanted: &StaticRules, correction: Correction) -> Result<Correction, IptablesError> {
        if !correction.is_empty() {
            self.proven_at = None;
            self.kernel.restore(&correction.text)?;
        }
        self.known = Some(wanted.clone());
        Ok(correction)
    }

    /// Whether no program, not even we, changed anything since the rules were last read.
    fn is_untouched(&mut self) -> Result<bool, IptablesError> {
        let now = self.kernel.generation()?;
        Ok(now.is_some() && now == self.proven_at)
    }

    /// Over netlink each chain by itself: the tables may be full of others' rules. The programs print everything anyway.
    fn read(&mut self, wanted: &StaticRules) -> Result<ChainsRead, IptablesError> {
        let chains = wanted.chains_to_read();
        if self.kernel.portid().is_none() {
            let saved = self.kernel.save_tables(&TABLES, &Cancel::default())?;
            return Ok(chains
                .into_iter()
                .filter_map(|chain| Some((chain, saved_rules(&saved, chain)?)))
                .collect());
        }
        let mut read = ChainsRead::new();
        for (table, chain) in chains {
            if let Some(rules) = self.kernel.chain_rules(table, chain)? {
                read.insert((table, chain), canonical(&rules));
            }
        }
        Ok(read)
    }
}

/// The rules in the form in which they can be compared.
pub(crate) fn canonical(rules: &[RuleText]) -> Vec<CanonicalRule> {
    rules.iter().map(|rule| CanonicalRule::parse(rule)).collect()
}

fn saved_rules(saved: &Saved, (table, chain): (&str, &str)) -> Option<Vec<CanonicalRule>> {
    let table = saved.table(table).filter(|table| table.has_chain(chain))?;
    let rules = table.rules.iter().filter(|rule| rule.chain.as_str() == chain);
    Some(rules.map(|rule| CanonicalRule::parse(rule.text.as_str())).collect())
}
