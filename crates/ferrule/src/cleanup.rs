//! What any mode of ours or of kube-proxy left in the kernel goes, and nothing of anybody else.
//!
//! All of it for `--cleanup`; at a start, what the other modes left, once our own rules are complete.

use ferrule_backends::iptables::LeftoverError;
use ferrule_backends::nftables::{Reconciler, SyncError};
use ferrule_backends::{iptables, ipvs};
use ferrule_kernel::iptables::Programs;
use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::nft::{Family, NftClient};
use ferrule_model::PerFamily;
use tracing::{info, warn};

use crate::causes::with_causes;
use crate::settings::ProxyMode;

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
    /// The table belongs to another program, which alone may remove it.
    #[error(
        "table {family} kube-proxy is owned by another program (netlink address {owner}); stop that program, the table \
         goes with it"
    )]
    Owned {
        /// The family.
        family: Family,
        /// The owner's netlink address, mostly its process id.
        owner: u32,
    },
    /// Chains stay.
    #[error(transparent)]
    Iptables(#[from] LeftoverError),
    /// Something of ipvs mode stays.
    #[error("removing what ipvs mode left")]
    Ipvs(#[source] NetlinkError),
}

/// Removes what every mode left. Goes on after a failure, and tells the first.
pub fn everything() -> Result<(), CleanupError> {
    let nftables = nftables_tables();
    let iptables = iptables::remove_leftovers().map_err(CleanupError::from);
    // Sets can go when no rule uses them any more.
    let ipvs = ipvs::remove_leftovers().map_err(CleanupError::Ipvs);
    nftables?;
    iptables?;
    ipvs?;
    info!("Cleaned up");
    Ok(())
}

/// Removes what the other modes left, as kube-proxy does at a start in this mode. What stays is told, and no more.
pub fn other_modes(mode: ProxyMode) {
    let removed = match mode {
        ProxyMode::Nftables => iptables_and_ipvs(),
        ProxyMode::Iptables | ProxyMode::Ipvs => nftables_tables(),
        ProxyMode::Userspace => Ok(()),
    };
    if let Err(error) = removed {
        warn!(err = with_causes(&error), "Rules of another mode could not be removed and stay in effect");
    }
}

/// Removes what an earlier run left in the variant of iptables that is not used any more.
pub fn other_variants(used: PerFamily<Programs>) {
    for (family, programs) in used.iter() {
        match iptables::remove_from_other_variant(*programs) {
            Ok(0) => {}
            Ok(chains) => info!(%family, chains, "Removed rules from the other variant of iptables"),
            Err(error) => {
                warn!(%family, err = with_causes(&error), "Rules in the other variant of iptables stay in effect");
            }
        }
    }
}

fn iptables_and_ipvs() -> Result<(), CleanupError> {
    let chains = iptables::remove_leftovers();
    let things = ipvs::remove_leftovers();
    let (chains, things) = (chains?, things.map_err(CleanupError::Ipvs)?);
    if chains + things > 0 {
        info!(chains, things, "Removed what iptables or ipvs mode left");
    }
    Ok(())
}

fn nftables_tables() -> Result<(), CleanupError> {
    let removed = [Family::Ip, Family::Ip6].map(nftables_table);
    removed.into_iter().collect()
}

fn nftables_table(family: Family) -> Result<(), CleanupError> {
    let mut client = NftClient::open(family).map_err(|source| CleanupError::Open { family, source })?;
    let table = client.table().map_err(|source| CleanupError::Open { family, source })?;
    if let Some(owner) = table.and_then(|table| table.owner) {
        return Err(CleanupError::Owned { family, owner });
    }
    let removed = Reconciler::new(client).remove_everything();
    removed.map_err(|source| CleanupError::Remove { family, source })
}
