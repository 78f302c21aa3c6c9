//! Compares the tables with what we wrote, on a thread of its own.
//!
//! Reading all rules of a large cluster takes a second over netlink, and the programs a minute. So nothing waits for it: a change of ours cancels a read
//! in progress and invalidates its result. A difference comes back as a [`Correction`], which the
//! [`Reconciler`](super::Reconciler) writes if nothing was written meanwhile.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use ferrule_kernel::iptables::{IptablesError, Saved};
use ferrule_kernel::nft::Family;
use ferrule_kernel::port::XTables;

use super::base::Table;
use super::canary::{CanaryState, canary};
use super::edit::Edit;
use super::known::{Epoch, KnownRules};
use super::observed::{Accuracy, Observed};
use super::rule_set::RuleSet;
use crate::OwnCommits;

/// Verifies one family's rules.
pub struct Verifier<K> {
    kernel: K,
    known: Arc<KnownRules>,
    own_commits: OwnCommits,
    /// The generation at which everything was found intact, where the kernel counts changes.
    intact_at: Option<u32>,
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
    /// The same, and iptables now accepts rules that it rejected before.
    QuarantineMayEnd,
    /// Something differs.
    Drifted(Box<Correction>),
}

/// What brings the tables in line again.
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
    /// Compares with these rules, through a kernel of its own.
    pub fn new(kernel: K, known: Arc<KnownRules>) -> Self {
        Self { kernel, known, own_commits: OwnCommits::default(), intact_at: None }
    }

    /// Knows which commits were ours: where there were no others, nothing has to be read again.
    #[must_use]
    pub fn sharing_generations(self, own_commits: &OwnCommits) -> Self {
        Self { own_commits: own_commits.clone(), ..self }
    }

    /// The rules it compares with.
    pub fn known(&self) -> &KnownRules {
        &self.known
    }

    /// Whether the tables look flushed. `None` if rules of ours are or were being written, so that no answer is possible.
    pub fn canary(&mut self) -> Result<Option<CanaryState>, IptablesError> {
        let Some(epoch) = self.known.now() else { return Ok(None) };
        self.kernel.check_lock()?;
        let state = canary(&mut self.kernel);
        if !self.known.is_now(epoch) {
            return Ok(None);
        }
        state.map(Some)
    }

    /// Reads the tables and compares them.
    pub fn verify(&mut self, scope: &Scope) -> Result<Verified, IptablesError> {
        let Some((epoch, cancel)) = self.known.begin_read() else { return Ok(Verified::NotNow) };
        let generation = self.kernel.generation()?;
        let is_untouched = generation.is_some_and(|now| self.is_untouched_at(now));
        if *scope == Scope::Everything && is_untouched && self.known.is_now(epoch) {
            self.known.begin_check();
            return Ok(self
                .known
                .rule_set_at(epoch)
                .map_or(Verified::Outdated, |rules| self.quarantine(&rules)));
        }
        let (began, tables) = (Instant::now(), scope.names());
        let saved = match self.kernel.save_tables(&tables, &cancel) {
            // It was cancelled, or saw half of a change.
            _ if !self.known.is_now(epoch) => return Ok(Verified::Outdated),
            saved => readable(saved?, self.kernel.family())?,
        };
        let Some(rule_set) = self.known.rule_set_at(epoch) else { return Ok(Verified::Outdated) };
        let observed = Observed::new(&saved, scope.accuracy(), scope.tables());
        let (edit, was_ours) = (observed.corrections(&rule_set), observed.is_ours());
        drop(saved);
        if *scope == Scope::Everything {
            self.known.set_read_cost(began.elapsed());
        }
        if !self.known.is_now(epoch) {
            return Ok(Verified::Outdated);
        }
        // Only a result that counts settles a request.
        if *scope == Scope::Everything {
            self.known.begin_check();
            self.intact_at = generation.filter(|_| edit.is_empty());
        }
        if edit.is_empty() {
            return Ok(self.quarantine(&rule_set));
        }
        Ok(Verified::Drifted(Box::new(Correction { epoch, edit, was_ours })))
    }

    fn is_untouched_at(&self, now: u32) -> bool {
        let mut known = [self.intact_at, self.known.proven_at()].into_iter().flatten();
        known.any(|since| self.own_commits.no_foreign_commit_between(since, now))
    }

    /// Rules that iptables rejected are tried with `iptables-restore --test`, which writes nothing.
    fn quarantine(&mut self, rule_set: &RuleSet) -> Verified {
        let text = rule_set.quarantined_text();
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

/// What was saved, if all of our tables could be. One that cannot be read looks empty, and would be filled again each time.
pub(super) fn readable(saved: Saved, family: Family) -> Result<Saved, IptablesError> {
    let ours = |name: &&String| Table::ALL.iter().any(|table| table.name() == **name);
    match saved.unreadable.iter().find(ours) {
        Some(table) => Err(IptablesError::Unreadable { family, table: table.clone() }),
        None => Ok(saved),
    }
}
