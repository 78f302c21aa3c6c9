//! Holds what is in the tables against what we wrote, on a thread of its own.
//!
//! Reading all rules takes the `nft` variant a minute in a large cluster. So nothing waits for it: a change of ours ends a read that is
//! under way, and what was read before it is dropped. What differs comes back as a [`Correction`], which the
//! [`Reconciler`](super::Reconciler) writes if nothing was written meanwhile.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use ferrule_kernel::iptables::{IptablesError, Saved};
use ferrule_kernel::kernel::XTables;
use ferrule_kernel::nft::Family;

use super::base::Table;
use super::canary::{CanaryState, canary};
use super::edit::Edit;
use super::known::{Epoch, KnownRules};
use super::observed::{Accuracy, Observed};
use super::program::Program;

/// Verifies one family's rules.
pub struct Verifier<K> {
    kernel: K,
    known: Arc<KnownRules>,
}

/// What is to be verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All rules. Comments of endpoints may be there or not.
    Everything,
    /// All of some tables, with every comment: they seem to have been emptied.
    Tables(Vec<&'static str>),
}

/// What came of it.
#[derive(Debug, PartialEq)]
pub enum Verified {
    /// Nothing was read: our rules are being written, or are not known.
    NotNow,
    /// What was read does not count: rules of ours were written meanwhile.
    Outdated,
    /// All is as it was written.
    Intact,
    /// It is, and iptables understands rules now that it refused before.
    QuarantineMayEnd,
    /// Something differs.
    Drifted(Box<Correction>),
}

/// What makes the tables what they should be again.
#[derive(Debug, PartialEq)]
pub struct Correction {
    pub(super) epoch: Epoch,
    pub(super) edit: Edit,
    pub(super) was_ours: bool,
}

impl fmt::Display for Correction {
    /// What differs: the first few chains.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 3;
        let chains = self.edit.chains();
        let shown: Vec<String> = chains.iter().take(SHOWN).map(ToString::to_string).collect();
        write!(f, "rules of {}", shown.join(", "))?;
        match chains.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more chains"),
        }
    }
}

impl<K: XTables> Verifier<K> {
    /// Verifies what is known to these, by a kernel of its own.
    pub fn new(kernel: K, known: Arc<KnownRules>) -> Self {
        Self { kernel, known }
    }

    /// What is known.
    pub fn known(&self) -> &KnownRules {
        &self.known
    }

    /// Whether the tables look emptied; nothing if that says nothing, since rules of ours are or were being written.
    pub fn canary(&mut self) -> Result<Option<CanaryState>, IptablesError> {
        let Some(epoch) = self.known.now() else { return Ok(None) };
        self.kernel.check_lock()?;
        let state = canary(&mut self.kernel);
        if !self.known.is_now(epoch) {
            return Ok(None);
        }
        state.map(Some)
    }

    /// Reads, and compares.
    pub fn verify(&mut self, scope: &Scope) -> Result<Verified, IptablesError> {
        let Some((epoch, cancel)) = self.known.begin_read() else { return Ok(Verified::NotNow) };
        let (began, tables) = (Instant::now(), scope.names());
        let saved = match self.kernel.save_tables(&tables, &cancel) {
            // It was ended, or saw half of a change: whatever it says, it is not about what is there now.
            _ if !self.known.is_now(epoch) => return Ok(Verified::Outdated),
            saved => readable(saved?, self.kernel.family())?,
        };
        let Some(program) = self.known.program_of(epoch) else { return Ok(Verified::Outdated) };
        let observed = Observed::of(&saved, scope.accuracy(), scope.tables());
        let (edit, was_ours) = (observed.corrections(&program), observed.is_ours());
        drop(saved);
        if *scope == Scope::Everything {
            self.known.set_read_cost(began.elapsed());
        }
        if !self.known.is_now(epoch) {
            return Ok(Verified::Outdated);
        }
        // Only a result that counts is what somebody may have asked for.
        if *scope == Scope::Everything {
            self.known.begin_check();
        }
        if edit.is_empty() {
            return Ok(self.quarantine(&program));
        }
        Ok(Verified::Drifted(Box::new(Correction { epoch, edit, was_ours })))
    }

    /// Rules that iptables refused are not written to be refused again: the program can say so without changing anything.
    fn quarantine(&mut self, program: &Program) -> Verified {
        let text = program.quarantined_text();
        if text.is_empty() || self.kernel.test(&text).is_err() {
            Verified::Intact
        } else {
            Verified::QuarantineMayEnd
        }
    }
}

impl Scope {
    fn tables(&self) -> Vec<Table> {
        match self {
            Self::Everything => Table::ALL.to_vec(),
            Self::Tables(names) => {
                Table::ALL.into_iter().filter(|table| names.contains(&table.name())).collect()
            }
        }
    }

    /// What to ask for; all tables are asked for at once.
    fn names(&self) -> Vec<&'static str> {
        match self {
            Self::Everything => Vec::new(),
            Self::Tables(_) => self.tables().into_iter().map(Table::name).collect(),
        }
    }

    fn accuracy(&self) -> Accuracy {
        match self {
            Self::Everything => Accuracy::AnyEndpointComments,
            Self::Tables(_) => Accuracy::Exact,
        }
    }
}

/// What was saved, if all of our tables could be. One that cannot be read looks like an empty one, and would be filled once more
/// each time.
pub(super) fn readable(saved: Saved, family: Family) -> Result<Saved, IptablesError> {
    let ours = |name: &&String| Table::ALL.iter().any(|table| table.name() == **name);
    match saved.unreadable.iter().find(ours) {
        Some(table) => Err(IptablesError::Unreadable { family, table: table.clone() }),
        None => Ok(saved),
    }
}
