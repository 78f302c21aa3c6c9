//! Writes changes. Where the kernel counts them, each leaves a stamp with the generation it becomes.
//!
//! The stamp sits on the canary chain of table nat, which is empty, which nothing jumps to, and whose user data no program shows
//! or minds. It is replaced with its chain by every commit.

use ferrule_kernel::iptables::{IptablesError, RestoreText, StampedChain};
use ferrule_kernel::port::XTables;

use super::Reconciler;
use crate::iptables::names::CANARY;
use crate::iptables::rule_set::{LAYOUT, RuleSet};
use crate::{OwnCommits, Stamp, StateHash, previous_generation};

const STAMPED: StampedChain = StampedChain { table: "nat", chain: CANARY };

/// Notifications about a longer text take the kernel much time, and would soon fill our receive buffer.
const LARGE_TEXT: usize = 1 << 20;

pub(super) fn is_large(text: &RestoreText) -> bool {
    text.as_str().len() >= LARGE_TEXT
}

impl<K: XTables> Reconciler<K> {
    /// Records commits together with the other family, so that neither takes the other's for a foreign one.
    #[must_use]
    pub fn sharing_generations(self, own_commits: &OwnCommits) -> Self {
        Self { own_commits: own_commits.clone(), ..self }
    }

    /// Reads the stamp of an earlier run: its commits count as our own if no other program's followed.
    pub fn load_stamp(&mut self) -> Result<(), IptablesError> {
        if let (Some(stamp), Some(now)) = (self.read_stamp()?, self.kernel.generation()?) {
            self.own_commits.adopt_run(stamp.generation, stamp.run, now);
        }
        Ok(())
    }

    /// Whether the tables are certain to hold this rule set: an earlier commit says so, and no other program's followed.
    pub(super) fn is_stamped(&mut self, rule_set: &RuleSet) -> Result<bool, IptablesError> {
        let (Some(now), Some(stamp)) = (self.kernel.generation()?, self.read_stamp()?) else {
            return Ok(false);
        };
        let is_untouched = self.own_commits.no_foreign_commit_between(stamp.generation, now);
        let is_stamped = is_untouched && stamp.hash == rule_set.hash().as_number();
        if is_stamped {
            self.verified = Some(now);
        }
        Ok(is_stamped)
    }

    fn read_stamp(&mut self) -> Result<Option<Stamp>, IptablesError> {
        let bytes = self.kernel.stamp(STAMPED)?;
        let stamp = bytes.and_then(|bytes| Stamp::from_bytes(&bytes));
        Ok(stamp.filter(|stamp| stamp.layout == LAYOUT && stamp.generation != 0))
    }

    /// Whether no other program can have touched the tables since they were last known to be right.
    pub(super) fn is_untouched(&mut self) -> Result<bool, IptablesError> {
        let now = self.kernel.generation()?;
        Ok(now.is_some_and(|now| self.is_untouched_at(now)))
    }

    fn is_untouched_at(&self, now: u32) -> bool {
        self.verified.is_some_and(|since| self.own_commits.no_foreign_commit_between(since, now))
    }

    /// Writes the text, after which the tables hold a state with this hash.
    pub(super) fn commit(&mut self, text: &RestoreText, hash: StateHash) -> Result<(), IptablesError> {
        let since = self.verified.take();
        let own_commits = self.own_commits.clone();
        let is_certain =
            |before| since.is_some_and(|since| own_commits.no_foreign_commit_between(since, before));
        let stamp = |generation| {
            let before = previous_generation(generation);
            let proven = Stamp::after(before, own_commits.run_length(before), hash, LAYOUT);
            let stamp = if is_certain(before) { proven } else { proven.without_proof() };
            stamp.to_bytes().to_vec()
        };
        let pause = if is_large(text) { self.subscription.pause() } else { None };
        let written = self.kernel.restore_stamped(text, STAMPED, &stamp);
        if let Some(pause) = pause {
            pause.end(written.as_ref().ok().copied().flatten());
        }
        match written {
            Ok(Some(generation)) => {
                let before = previous_generation(generation);
                self.verified = is_certain(before).then_some(generation);
                self.own_commits.record(before);
                Ok(())
            }
            Ok(None) => Ok(()),
            // It may be the stamp that cannot be written, if another program uses its chain.
            Err(IptablesError::Rejected { at: None, .. }) => self.kernel.restore(text),
            Err(error) => Err(error),
        }
    }

    /// Reads with `read`. What it finds right is known to be right at the generation it was read at.
    pub(super) fn read_at_generation<T>(
        &mut self,
        read: impl FnOnce(&mut K) -> Result<T, IptablesError>,
    ) -> Result<T, IptablesError> {
        let before = self.kernel.generation()?;
        let found = read(&mut self.kernel)?;
        self.verified =
            before.filter(|before| matches!(self.kernel.generation(), Ok(Some(now)) if now == *before));
        Ok(found)
    }
}
