//! Follows a packet through a table as it was read, whichever program wrote it: what the kernel would do, without sending anything.
//!
//! Knows the table `kube-proxy` alone, and what a first packet of a connection can meet there. Where the kernel draws a number,
//! every number is tried. What packets wrote into sets is not known: a client has no endpoint yet. An instruction that is not
//! known is an error once a packet meets it, never a guess.

mod hooks;
mod machine;

use std::collections::{BTreeMap, BTreeSet};

use ferrule_kernel::nft::ruleset::Ruleset;
use ferrule_plan::{Delivery, NodeTraffic, Outcome, Packet};

use hooks::{BaseChain, Fate};
use machine::Choices;

/// So many numbers are tried at most: more than a Service has endpoints.
const MAX_ROUNDS: usize = 20_000;
/// A packet that meets more rules in all rounds is not followed further.
const MAX_RULES: usize = 2_000_000;

/// A packet met something that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("chain {chain}: {what}")]
pub struct NotFollowed {
    /// Where it was.
    pub chain: String,
    /// What it met.
    pub what: String,
}

/// What becomes of a packet: one outcome, or several where the table does not treat all drawn numbers alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcomes {
    /// The endpoints it may go to, or what else becomes of it in every case.
    pub outcome: Outcome,
    /// What else becomes of it in some cases.
    pub sometimes: Vec<Outcome>,
}

impl Outcomes {
    /// Whether this is what becomes of it in every case.
    pub fn is(&self, expected: &Outcome) -> bool {
        self.sometimes.is_empty() && self.outcome == *expected
    }
}

/// A table, ready to follow packets.
#[derive(Debug)]
pub struct Table<'a> {
    ruleset: &'a Ruleset,
    base_chains: Vec<BaseChain<'a>>,
}

impl<'a> Table<'a> {
    /// Notes where packets enter it.
    pub fn new(ruleset: &'a Ruleset) -> Self {
        Self { ruleset, base_chains: hooks::base_chains(ruleset) }
    }
}

/// Follows a packet through a table on a node with these addresses.
pub fn outcomes(table: &Table<'_>, node: &NodeTraffic, packet: &Packet) -> Result<Outcomes, NotFollowed> {
    let mut choices = Choices::default();
    let mut to = BTreeMap::<Option<u32>, BTreeSet<Delivery>>::new();
    let mut others = Vec::new();
    for _ in 0..MAX_ROUNDS {
        let fate = hooks::pass(table, node, packet, &mut choices)?;
        match fate {
            Fate::Delivered { endpoint, masqueraded, remembered } => {
                to.entry(remembered).or_default().insert(Delivery { endpoint, masqueraded });
            }
            Fate::Dropped => note(&mut others, Outcome::Dropped),
            Fate::Rejected => note(&mut others, Outcome::Rejected),
            Fate::Untouched => note(&mut others, Outcome::Untouched),
        }
        if choices.rules > MAX_RULES {
            return Err(NotFollowed { chain: "services".to_owned(), what: "too many rules".to_owned() });
        }
        if !choices.next_round() {
            let forwarded = to.into_iter().map(|(sticky, to)| Outcome::Forwarded { to, sticky });
            return Ok(summed_up(forwarded.chain(others).collect()));
        }
    }
    Err(NotFollowed { chain: "services".to_owned(), what: "too many endpoints".to_owned() })
}

fn note(others: &mut Vec<Outcome>, outcome: Outcome) {
    if !others.contains(&outcome) {
        others.push(outcome);
    }
}

fn summed_up(mut all: Vec<Outcome>) -> Outcomes {
    let outcome = if all.is_empty() { Outcome::Untouched } else { all.remove(0) };
    Outcomes { outcome, sometimes: all }
}

#[cfg(test)]
mod tests;
