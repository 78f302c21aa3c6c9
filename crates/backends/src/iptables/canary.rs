//! Whether another program flushed the tables: canary chains that exist only for this, and chains that always have rules.
//!
//! kube-proxy checks its canary alone and so notices removed chains; here flushed rules count as well. This check is cheap and
//! only raises a suspicion: [`super::Verifier`] reads the tables before anything is reported as lost.

use ferrule_kernel::iptables::IptablesError;
use ferrule_kernel::port::XTables;

use super::names::CANARY;

/// For each table, the chains that must be there, and whether they must have rules.
const CANARY_CHAINS: [(&str, &[(&str, bool)]); 3] = [
    ("mangle", &[(CANARY, false)]),
    ("nat", &[(CANARY, false), ("KUBE-POSTROUTING", true)]),
    ("filter", &[(CANARY, false), ("KUBE-FORWARD", true)]),
];

/// The state of the canary chains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CanaryState {
    /// As they were left.
    Intact,
    /// Some tables were flushed; the program that does it may be about to flush the others.
    PartlyFlushed(Vec<&'static str>),
    /// All tables were flushed.
    Flushed,
}

/// Checks the canary chains. A command that fails, is killed or waits for a lock proves nothing: that is an error, not a loss.
pub fn canary(kernel: &mut impl XTables) -> Result<CanaryState, IptablesError> {
    let mut flushed = Vec::new();
    for (table, chains) in CANARY_CHAINS {
        let mut is_intact = true;
        for (chain, must_have_rules) in chains {
            let rules = kernel.chain_rules(table, chain)?;
            is_intact &= rules.is_some_and(|rules| !rules.is_empty() || !must_have_rules);
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
