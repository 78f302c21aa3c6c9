//! What the program sees of a mode: one family's rules in the kernel, whatever they are made of.

use std::time::Duration;

use ferrule_kernel::kernel::{NftTables, XTables};
use ferrule_plan::FamilyPlan;

use crate::iptables::{Correction, Refusal};
use crate::sync::{Reason, SyncError, SyncReport};
use crate::{iptables, nftables};

/// Keeps one family's rules in the kernel as the plan wants them.
pub trait Dataplane: Send {
    /// Brings the kernel in line with the plan. After a failure nothing is assumed of it, whatever the next reason.
    fn sync(&mut self, plan: &FamilyPlan, reason: Reason<'_>) -> Result<SyncReport, SyncError>;

    /// Takes away what lingered, some milliseconds after the sync that said so.
    fn finish(&mut self) -> Result<SyncReport, SyncError>;

    /// Removes everything of ours.
    fn remove_everything(&mut self) -> Result<(), SyncError>;

    /// The netlink address under which our commits are announced, if they are.
    fn own_address(&self) -> Option<u32>;

    /// Whether other programs do the work of a sync, so that its cost shows on the clock and not in this thread's time.
    fn runs_programs(&self) -> bool;

    /// How long the last sync waited for the lock that users of iptables share, if it took one.
    fn lock_wait(&mut self) -> Option<Duration>;

    /// What the last sync left out, since iptables refused it.
    fn refusals(&mut self) -> Vec<Refusal> {
        Vec::new()
    }

    /// Whether the rules are verified on another thread, so that a look is needed only where nothing is known of them. Such a
    /// look writes what changed as well.
    fn is_verified_elsewhere(&self) -> bool {
        false
    }

    /// Whether changes wait that the next sync writes, whatever its reason.
    fn has_unwritten(&self) -> bool {
        false
    }

    /// Asks for a verification on another thread before it is time for one.
    fn want_verification(&self) {}

    /// Writes what a verification on another thread found to differ; nothing if rules were written since.
    fn correct(&mut self, _: &Correction) -> Result<Option<SyncReport>, SyncError> {
        Ok(None)
    }
}

impl<K: NftTables + Send> Dataplane for nftables::Reconciler<K> {
    fn sync(&mut self, plan: &FamilyPlan, reason: Reason<'_>) -> Result<SyncReport, SyncError> {
        self.sync(plan, reason)
    }

    fn finish(&mut self) -> Result<SyncReport, SyncError> {
        self.finish()
    }

    fn remove_everything(&mut self) -> Result<(), SyncError> {
        self.remove_everything()
    }

    fn own_address(&self) -> Option<u32> {
        Some(self.own_address())
    }

    fn runs_programs(&self) -> bool {
        false
    }

    fn lock_wait(&mut self) -> Option<Duration> {
        None
    }
}

impl<K: XTables + Send> Dataplane for iptables::Reconciler<K> {
    fn sync(&mut self, plan: &FamilyPlan, reason: Reason<'_>) -> Result<SyncReport, SyncError> {
        self.sync(plan, reason)
    }

    /// Nothing lingers: a table changes in one step.
    fn finish(&mut self) -> Result<SyncReport, SyncError> {
        Ok(SyncReport::default())
    }

    fn remove_everything(&mut self) -> Result<(), SyncError> {
        self.remove_everything()
    }

    fn own_address(&self) -> Option<u32> {
        None
    }

    fn runs_programs(&self) -> bool {
        true
    }

    fn lock_wait(&mut self) -> Option<Duration> {
        self.kernel().lock_wait()
    }

    fn refusals(&mut self) -> Vec<Refusal> {
        self.refusals()
    }

    fn is_verified_elsewhere(&self) -> bool {
        true
    }

    fn has_unwritten(&self) -> bool {
        self.has_unwritten()
    }

    fn want_verification(&self) {
        self.known().want_check();
    }

    fn correct(&mut self, correction: &Correction) -> Result<Option<SyncReport>, SyncError> {
        self.correct(correction)
    }
}
