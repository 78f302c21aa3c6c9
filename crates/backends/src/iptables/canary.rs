//! Whether somebody emptied the tables: chains that are there for nothing else, and ones that always have rules.
//!
//! kube-proxy looks for its canary alone, so it sees chains that were removed; here rules that were flushed count as well. What
//! is seen here is cheap and a suspicion: [`super::Verifier`] makes sure before anything is called a loss.

use ferrule_kernel::iptables::IptablesError;
use ferrule_kernel::kernel::XTables;

use super::names::CANARY;

/// For each table, the chains that must be there, and whether they must have rules.
const CANARY_CHAINS: [(&str, &[(&str, bool)]); 3] = [
    ("mangle", &[(CANARY, false)]),
    ("nat", &[(CANARY, false), ("KUBE-POSTROUTING", true)]),
    ("filter", &[(CANARY, false), ("KUBE-FORWARD", true)]),
];

/// How the tables look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CanaryState {
    /// As they were left.
    Intact,
    /// Some were emptied; whoever does it may be about to empty the others.
    PartlyFlushed(Vec<&'static str>),
    /// All were emptied.
    Flushed,
}

/// Looks at the tables. A program that fails, is ended or waits for a lock says nothing about them: that is an error, not a loss.
pub fn canary(kernel: &mut impl XTables) -> Result<CanaryState, IptablesError> {
    let mut flushed = Vec::new();
    for (table, chains) in CANARY_CHAINS {
        let mut is_intact = true;
        for (chain, must_have_rules) in chains {
            let rules = kernel.rules_of(table, chain)?;
            is_intact &= rules.is_some_and(|rules| rules > 0 || !must_have_rules);
        }
        if !is_intact {
            flushed.push(table);
        }
    }
    Ok(match flushed.len() {
        0 => CanaryState::Intact,
        all if all == CANARY_CHAINS.len() => CanaryState::Flushed,
        _ => CanaryState::PartlyFlushed(flushed),
    })
}
