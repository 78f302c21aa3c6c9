//! Commits: each leaves a stamp with the generation it became, and is tried again if another program was faster.

use ferrule_kernel::nft::{CommitError, Transaction};
use ferrule_kernel::port::NftTables;

use super::{Applied, Reconciler};
use crate::OwnCommits;
use crate::Stamp;
use crate::StateHash;
use crate::SyncReport;
use crate::nftables::LAYOUT;
use crate::nftables::SyncError;
use crate::nftables::keys::stamp_element;

/// How often a commit is tried again because another program committed to its own table in between.
const MAX_COMMIT_TRIES: usize = 20;

/// The state that a commit is based on.
#[derive(Clone, Copy)]
pub(super) enum Baseline {
    /// The kernel keeps some of what is in the table, and it was not read yet.
    Unread,
    /// The table as it was at this generation; unknown if there is none.
    Generation(Option<u32>),
}

/// A commit that left a stamp.
pub(super) struct StampedCommit {
    pub stamp: Stamp,
    /// The generation it became.
    pub generation: u32,
    /// The same, if the table is certain to be as we left it.
    pub verified: Option<u32>,
    pub report: SyncReport,
}

impl<K: NftTables> Reconciler<K> {
    /// Whether no other program can have touched the table since it was last verified.
    pub(super) fn is_untouched(&mut self, applied: &Applied) -> Result<bool, SyncError> {
        let now = self.kernel.generation()?;
        Ok(Baseline::Generation(applied.verified).is_certain(&self.own_commits, now))
    }

    /// Commits with a stamp that names the generation the commit becomes.
    pub(super) fn commit(
        &mut self,
        mut transaction: Transaction,
        hash: StateHash,
        baseline: Baseline,
    ) -> Result<StampedCommit, SyncError> {
        let mut tries = 0;
        loop {
            let generation = self.kernel.generation()?;
            let is_certain = baseline.is_certain(&self.own_commits, generation);
            let proven = Stamp::after(generation, self.own_commits.run_length(generation), hash, LAYOUT);
            let stamp = if is_certain { proven } else { proven.without_proof() };
            transaction.add_element(stamp_element(stamp));
            if let Some(report) = self.commit_after(generation, &mut transaction, &mut tries)? {
                let generation = proven.generation;
                let verified = is_certain.then_some(generation);
                return Ok(StampedCommit { stamp, generation, verified, report });
            }
            transaction.pop_element();
        }
    }

    /// Commits with a new stamp in place of the one that is there.
    pub(super) fn commit_restamped(
        &mut self,
        applied: &mut Applied,
        mut transaction: Transaction,
        hash: StateHash,
    ) -> Result<SyncReport, SyncError> {
        transaction.delete_elements([&stamp_element(applied.stamp)]);
        let committed = self.commit(transaction, hash, Baseline::Generation(applied.verified))?;
        (applied.stamp, applied.verified) = (committed.stamp, committed.verified);
        Ok(committed.report)
    }

    /// Commits without a stamp; another commit is to follow.
    pub(super) fn commit_unstamped(&mut self, mut transaction: Transaction) -> Result<SyncReport, SyncError> {
        let mut tries = 0;
        loop {
            let generation = self.kernel.generation()?;
            if let Some(report) = self.commit_after(generation, &mut transaction, &mut tries)? {
                return Ok(report);
            }
        }
    }

    /// Commits right after a generation. `None` if another program was faster: then nothing was written.
    fn commit_after(
        &mut self,
        generation: u32,
        transaction: &mut Transaction,
        tries: &mut usize,
    ) -> Result<Option<SyncReport>, SyncError> {
        transaction.expect_generation(generation);
        *tries += 1;
        match self.kernel.commit(transaction) {
            Ok(committed) => {
                self.own_commits.record(generation);
                let mut report = SyncReport::default();
                report.add(committed.written, committed.removed);
                Ok(Some(report))
            }
            Err(CommitError::GenerationChanged { .. }) if *tries <= MAX_COMMIT_TRIES => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Baseline {
    /// Whether no other program can have touched the table since.
    fn is_certain(self, own_commits: &OwnCommits, now: u32) -> bool {
        match self {
            Self::Unread => false,
            Self::Generation(since) => {
                since.is_some_and(|since| own_commits.no_foreign_commit_between(since, now))
            }
        }
    }
}
