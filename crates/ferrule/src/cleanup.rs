//! `--cleanup`: everything that any mode of ours or of kube-proxy left in the kernel goes, and nothing of anybody else.

use ferrule_backends::nftables::{Reconciler, SyncError};
use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::nft::{Family, NftClient};
use tracing::info;

/// Something could not be removed.
#[derive(Debug, thiserror::Error)]
pub enum CleanupError {
    /// The kernel does not answer.
    #[error("removing the nftables rules of {family}; run it as root or with the capability CAP_NET_ADMIN")]
    Open {
        /// The family.
        family: Family,
        /// Why.
        #[source]
        source: NetlinkError,
    },
    /// The table stays.
    #[error("removing the nftables rules of {family}; run it as root or with the capability CAP_NET_ADMIN")]
    Remove {
        /// The family.
        family: Family,
        /// Why.
        #[source]
        source: SyncError,
    },
}

/// Removes what every mode left.
pub fn everything() -> Result<(), CleanupError> {
    for family in [Family::Ip, Family::Ip6] {
        let client = NftClient::open(family).map_err(|source| CleanupError::Open { family, source })?;
        let removed = Reconciler::new(client).remove_everything();
        removed.map_err(|source| CleanupError::Remove { family, source })?;
    }
    info!("Cleaned up");
    Ok(())
}
