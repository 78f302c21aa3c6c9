//! What iptables refused, and whose it is: one odd rule must not keep all the others out of the tables.

use std::fmt;

use ferrule_kernel::iptables::IptablesError;
use ferrule_model::ServicePortName;

use super::program::Program;

/// Something that is left out, since iptables refused it.
#[derive(Debug)]
pub struct Refusal {
    /// What.
    pub what: Refused,
    /// Why.
    pub error: IptablesError,
    /// Whether it was refused before, and nothing about it changed.
    pub is_repeated: bool,
}

/// What is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// All rules of a Service port, until it changes or iptables takes them.
    Port(ServicePortName),
    /// Counting packets, from now on.
    Counters,
}

impl Refused {
    /// What a failure is about, if it names a rule that can be done without.
    pub(super) fn of(error: &IptablesError, program: &Program) -> Option<Self> {
        let line = error.refused_line()?;
        // The legacy variant refuses a table as a whole. Counters are what a kernel most likely lacks.
        let may_be_counters = line.contains("-m nfacct") || line == "COMMIT";
        if may_be_counters && program.counts_packets() {
            return Some(Self::Counters);
        }
        program.owner_of(line).cloned().map(Self::Port)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(owner) => write!(f, "Service port {owner}"),
            Self::Counters => f.write_str("packet counters"),
        }
    }
}
