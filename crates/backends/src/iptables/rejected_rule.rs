//! What iptables rejected, and what it belongs to: one odd rule must not keep all the others out of the tables.

use std::fmt;

use ferrule_kernel::iptables::IptablesError;
use ferrule_model::ServicePortName;

use super::rule_set::RuleSet;

/// A rule that iptables rejected, and what is left out because of it.
#[derive(Debug)]
pub struct RejectedRule {
    /// What is left out.
    pub what: RejectedPart,
    /// Why it was rejected.
    pub error: IptablesError,
    /// Whether it was rejected before, and has not changed since.
    pub is_repeated: bool,
}

/// A part of the rule set that the rest can do without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RejectedPart {
    /// All rules of a Service port, until it changes or iptables accepts them.
    Port(ServicePortName),
    /// Counting packets, for the rest of the run.
    Counters,
}

impl RejectedPart {
    /// The part that a failure is about, if it names a rule that can be left out.
    pub(super) fn identify(error: &IptablesError, rule_set: &RuleSet) -> Option<Self> {
        let line = error.rejected_line().filter(|_| !error.is_transient())?;
        // The legacy variant rejects a table as a whole. Counters are what a kernel most likely lacks.
        let may_be_counters = line.contains("-m nfacct") || line == "COMMIT";
        if may_be_counters && rule_set.counts_packets() {
            return Some(Self::Counters);
        }
        rule_set.owner_of(line).cloned().map(Self::Port)
    }
}

impl fmt::Display for RejectedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(owner) => write!(f, "Service port {owner}"),
            Self::Counters => f.write_str("packet counters"),
        }
    }
}
