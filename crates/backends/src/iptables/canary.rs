//! Whether somebody emptied the tables: chains that are there for nothing else, and ones that always have rules.
//!
//! kube-proxy looks for its canary alone, so it sees chains that were removed; here rules that were flushed count as well.

use ferrule_kernel::iptables::IptablesError;
use ferrule_kernel::kernel::XTables;

use super::names::CANARY;

/// For each table, the chains that must be there, and whether they must have rules.
const SIGNS: [(&str, &[(&str, bool)]); 3] = [
    ("mangle", &[(CANARY, false)]),
    ("nat", &[(CANARY, false), ("KUBE-POSTROUTING", true)]),
    ("filter", &[(CANARY, false), ("KUBE-FORWARD", true)]),
];

/// How the tables are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pulse {
    /// As they were left.
    Steady,
    /// Some were emptied; whoever does it may be about to empty the others.
    Failing(Vec<&'static str>),
    /// All were emptied.
    Gone,
}

/// Looks at the tables. A lock that somebody holds says nothing about them: it is an error, not a loss.
pub fn pulse(kernel: &mut impl XTables) -> Result<Pulse, IptablesError> {
    let mut failing = Vec::new();
    for (table, chains) in SIGNS {
        let mut is_well = true;
        for (chain, must_have_rules) in chains {
            let rules = kernel.rules_of(table, chain)?;
            is_well &= rules.is_some_and(|rules| rules > 0 || !must_have_rules);
        }
        if !is_well {
            failing.push(table);
        }
    }
    Ok(match failing.len() {
        0 => Pulse::Steady,
        all if all == SIGNS.len() => Pulse::Gone,
        _ => Pulse::Failing(failing),
    })
}
