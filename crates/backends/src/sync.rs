//! What every mode says about a sync: why it was asked for, what it did, why it failed.

use ferrule_kernel::iptables::IptablesError;
use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::nft::CommitError;
use ferrule_plan::PlanDelta;

/// Why a sync is asked for.
#[derive(Clone, Copy, Debug)]
pub enum Reason<'a> {
    /// The plan changed so.
    PlanChanged(&'a PlanDelta),
    /// It is time to look, or there is reason to: start, a failure before.
    Look,
    /// Somebody else touched the table. What is wrong with it is not looked for: in the kernel that takes longer than writing
    /// everything, which packets do not notice.
    Repair,
}

/// What a sync did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncReport {
    /// Objects written.
    pub written: usize,
    /// Objects removed by name or key.
    pub removed: usize,
    /// Transactions.
    pub commits: usize,
    /// How it came about.
    pub way: Way,
    /// Objects that are to go in a while: see [`crate::Dataplane::finish`].
    pub lingering: usize,
    /// Pools that are served without session affinity though they should have it: there are more, or they are larger, than the
    /// mode has room for.
    pub without_affinity: usize,
    /// In iptables mode, how many rules there are.
    pub rules: Option<RuleCounts>,
}

/// For each table, how many rules are ours in all, and how many were written now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCounts {
    /// In table filter.
    pub filter: (usize, usize),
    /// In table nat.
    pub nat: (usize, usize),
    /// Service ports that are left out, since iptables refuses their rules.
    pub quarantined: usize,
}

/// How a sync came about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// What was there is what was wanted.
    #[default]
    Adopted,
    /// The difference was written.
    Changed,
    /// Everything was written anew, in place.
    Rewritten,
    /// The table was made, or replaced another program's.
    Made,
}

impl Way {
    /// Whether what was there was not what was wanted, though nothing was asked for.
    pub fn is_repair(self) -> bool {
        match self {
            Self::Adopted | Self::Changed => false,
            Self::Rewritten | Self::Made => true,
        }
    }

    /// In a word, for the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Adopted => "adopted",
            Self::Changed => "changed",
            Self::Rewritten => "rewritten",
            Self::Made => "made",
        }
    }
}

/// A sync that failed. Nothing is assumed of the table afterwards.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// The table could not be read.
    #[error("reading the nftables rules")]
    Read(#[from] NetlinkError),
    /// The table could not be written.
    #[error("writing the nftables rules")]
    Commit(#[from] CommitError),
    /// The table was written, and does not hold what was written.
    #[error("verifying the nftables rules: {difference}; is another program changing them all the time?")]
    Verify {
        /// What differs.
        difference: String,
    },
    /// A program failed.
    #[error("syncing the iptables rules")]
    Iptables(#[from] IptablesError),
}

impl SyncReport {
    pub(crate) fn add(&mut self, written: usize, removed: usize) {
        self.written += written;
        self.removed += removed;
        self.commits += 1;
    }
}
