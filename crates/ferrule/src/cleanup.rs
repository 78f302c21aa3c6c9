//! What any mode of ours or of kube-proxy left in the kernel goes, and nothing of anybody else.
//!
//! All of it for `--cleanup`; at a start, what the other modes left, once our own rules are complete.

use ferrule_backends::iptables::{LeftoverError, Removed};
use ferrule_backends::nftables::{Reconciler, SyncError};
use ferrule_backends::{iptables, ipvs};
use ferrule_kernel::iptables::Programs;
use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::nft::{Family, NftClient};
use ferrule_model::{IpFamily, PerFamily};
use tracing::info;

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

impl CleanupError {
    /// The family it is about, if it is about one.
    pub fn family(&self) -> Option<IpFamily> {
        let family = match self {
            Self::Open { family, .. } | Self::Remove { family, .. } | Self::Owned { family, .. } => *family,
            Self::Iptables(error) => error.family,
            Self::Ipvs(_) => return None,
        };
        Some(match family {
            Family::Ip => IpFamily::V4,
            Family::Ip6 => IpFamily::V6,
        })
    }
}

/// Removes what every mode left. Goes on after a failure, and tells the first.
pub fn everything() -> Result<(), CleanupError> {
    let nftables = nftables_tables();
    let iptables = iptables::remove_leftovers().map_err(CleanupError::from);
    // Sets can go when no rule uses them any more.
    let ipvs = ipvs::remove_leftovers().map_err(CleanupError::Ipvs);
    if let Ok(removed) = &iptables {
        tell_of_localnet(*removed);
    }
    nftables?;
    iptables?;
    ipvs?;
    info!("Cleaned up");
    Ok(())
}

/// Removes what the other modes left, as kube-proxy does at a start in this mode. Goes on after a failure, and tells the first.
pub fn other_modes(mode: ProxyMode) -> Result<(), CleanupError> {
    match mode {
        ProxyMode::Nftables => iptables_and_ipvs(iptables::remove_leftovers),
        ProxyMode::Iptables => {
            let tables = nftables_tables();
            let of_ipvs = iptables_and_ipvs(iptables::remove_ipvs_leftovers);
            tables.and(of_ipvs)
        }
        ProxyMode::Ipvs => nftables_tables(),
        ProxyMode::Userspace => Ok(()),
    }
}

/// Removes what an earlier run left in the variant of iptables that is not used any more.
pub fn other_variants(used: PerFamily<Programs>) -> Result<(), CleanupError> {
    let mut result = Ok(());
    for (family, programs) in used.iter() {
        match iptables::remove_from_other_variant(*programs) {
            Ok(0) => {}
            Ok(chains) => info!(%family, chains, "Removed rules from the other variant of iptables"),
            Err(error) => result = result.and(Err(error.into())),
        }
    }
    result
}

fn iptables_and_ipvs(chains: fn() -> Result<Removed, LeftoverError>) -> Result<(), CleanupError> {
    let removed = chains();
    let things = ipvs::remove_leftovers();
    let (removed, things) = (removed?, things.map_err(CleanupError::Ipvs)?);
    let chains = removed.chains;
    tell_of_localnet(removed);
    if chains + things > 0 {
        info!(chains, things, "Removed what iptables or ipvs mode left");
    }
    Ok(())
}

fn tell_of_localnet(removed: Removed) {
    if removed.localnet_is_off {
        info!("Setting route_localnet=0 again, as it was before node-ports were served on localhost");
    }
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
