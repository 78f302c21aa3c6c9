//! Why the table could not be brought in line.

use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::nft::CommitError;

/// A sync that failed. Nothing is assumed about the table afterwards.
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
}
