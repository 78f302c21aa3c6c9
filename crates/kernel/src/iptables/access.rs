//! How a node's iptables rules are read and written: over netlink where they are in nf_tables, by the programs otherwise.
//!
//! The rules of the legacy variant are one blob in the kernel for each table, with a lock that all users share; those stay with
//! the programs. Which variant a node uses is detected as kube-proxy's image does it.

use std::cmp::Ordering;

use super::{IptablesCommands, IptablesError, NetlinkTables, Saved, Variant, legacy};
use crate::nft::Family;
use crate::port::XTables;

/// Chains by which the kubelet marks the variant that this node uses.
const HINTS: [&str; 2] = ["KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY"];

/// How one family's rules are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableAccess {
    /// The nft variant's rules, without its programs.
    Netlink(Family),
    /// By the programs of a variant.
    Commands(IptablesCommands),
}

/// What may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessPolicy {
    /// Netlink where it works.
    #[default]
    NetlinkFirst,
    /// Only the programs.
    CommandsOnly,
}

/// How rules are read and written, and why not better.
#[derive(Debug)]
pub struct ChosenAccess {
    /// How.
    pub access: TableAccess,
    /// Why the programs are used, though the rules are in nf_tables.
    pub fallback: Option<IptablesError>,
}

impl TableAccess {
    /// The variant that this node uses, in the way that works.
    pub fn choose(family: Family, policy: AccessPolicy) -> Result<ChosenAccess, IptablesError> {
        let nft = Self::nft(family, policy);
        let variant = detect(family, nft.access)?;
        match variant {
            Variant::Nft => Ok(nft),
            Variant::Legacy | Variant::Default => Ok(Self::of_variant(family, variant, policy)),
        }
    }

    /// This variant, in the way that works.
    pub fn of_variant(family: Family, variant: Variant, policy: AccessPolicy) -> ChosenAccess {
        let commands = IptablesCommands::new(family, variant).with_lock_resolved();
        match commands.resolved_variant() {
            Some(Variant::Legacy) => ChosenAccess { access: Self::Commands(commands), fallback: None },
            // Without any program there is only netlink.
            Some(Variant::Nft | Variant::Default) | None => {
                let nft = Self::nft(family, policy);
                let access = if nft.access.is_netlink() { nft.access } else { Self::Commands(commands) };
                ChosenAccess { access, ..nft }
            }
        }
    }

    /// This variant, to remove rules from: that works wherever rules can be.
    pub fn for_removal(family: Family, variant: Variant) -> Self {
        match variant {
            Variant::Nft => Self::Netlink(family),
            Variant::Legacy | Variant::Default => Self::Commands(IptablesCommands::new(family, variant)),
        }
    }

    fn nft(family: Family, policy: AccessPolicy) -> ChosenAccess {
        Self::nft_if(family, policy, || open_netlink(family)?.probe())
    }

    /// The nft variant: over netlink if the policy allows it and the probe succeeds, by the programs otherwise.
    fn nft_if(
        family: Family,
        policy: AccessPolicy,
        probe: impl FnOnce() -> Result<(), IptablesError>,
    ) -> ChosenAccess {
        let commands = Self::Commands(IptablesCommands::new(family, Variant::Nft));
        match policy {
            AccessPolicy::CommandsOnly => ChosenAccess { access: commands, fallback: None },
            AccessPolicy::NetlinkFirst => match probe() {
                Ok(()) => ChosenAccess { access: Self::Netlink(family), fallback: None },
                Err(error) => ChosenAccess { access: commands, fallback: Some(error) },
            },
        }
    }

    /// Opens the tables.
    pub fn open(self) -> Result<Box<dyn XTables + Send>, IptablesError> {
        Ok(match self {
            Self::Netlink(family) => Box::new(open_netlink(family)?),
            Self::Commands(commands) => Box::new(commands),
        })
    }

    /// Checks that rules can be read and written.
    pub fn probe(self) -> Result<(), IptablesError> {
        match self {
            // Done when it was chosen.
            Self::Netlink(_) => Ok(()),
            Self::Commands(mut commands) => commands.probe(),
        }
    }

    /// Whether no program is run.
    pub fn is_netlink(self) -> bool {
        matches!(self, Self::Netlink(_))
    }

    /// The family.
    pub fn family(self) -> Family {
        match self {
            Self::Netlink(family) => family,
            Self::Commands(commands) => commands.family(),
        }
    }

    /// The variant whose rules these are; `None` if the programs do not tell.
    pub fn variant(self) -> Option<Variant> {
        match self {
            Self::Netlink(_) => Some(Variant::Nft),
            Self::Commands(commands) => commands.resolved_variant(),
        }
    }

    /// For the log.
    pub fn name(self) -> String {
        match self {
            Self::Netlink(_) => "netlink".to_owned(),
            Self::Commands(commands) => commands.name("-restore"),
        }
    }
}

fn open_netlink(family: Family) -> Result<NetlinkTables, IptablesError> {
    let opened = NetlinkTables::open(family);
    opened.map_err(|source| IptablesError::Netlink { operation: "talking to nf_tables", source })
}

/// Evidence for a variant, the strongest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Evidence {
    is_hinted: bool,
    serves: bool,
}

/// Detects the variant this node uses: the one with the kubelet's hint, or else with rules of a service proxy, or else with
/// more rules, or else whichever `iptables` is. Fails if rules that are there cannot be read.
fn detect(family: Family, nft: TableAccess) -> Result<Variant, IptablesError> {
    let mut legacy = IptablesCommands::new(family, Variant::Legacy);
    let saved = if legacy::has_tables() { legacy.save_if_present()? } else { None };
    let mut tables = nft.open()?;
    // All rules of a large cluster take a while to read, and mostly they are not needed.
    let (ours, theirs) = (evidence(&mut tables)?, saved.as_ref().map_or_else(Evidence::default, in_saved));
    if ours != theirs {
        return Ok(if ours > theirs { Variant::Nft } else { Variant::Legacy });
    }
    let has_evidence = ours != Evidence::default();
    let rules = |saved: Option<Saved>| saved.map_or(0, |saved| saved.rules() + saved.unreadable.len());
    let (ours, theirs) = (rules(if_present(tables.save())?), rules(saved));
    Ok(match ours.cmp(&theirs) {
        Ordering::Less => Variant::Legacy,
        Ordering::Equal if ours == 0 && !has_evidence => Variant::Default,
        Ordering::Equal | Ordering::Greater => Variant::Nft,
    })
}

fn in_saved(saved: &Saved) -> Evidence {
    let has = |table: &str, chain: &str| saved.table(table).is_some_and(|table| table.has_chain(chain));
    Evidence { is_hinted: HINTS.iter().any(|hint| has("mangle", hint)), serves: has("nat", "KUBE-SERVICES") }
}

/// Evidence in the rules of the nft variant, without reading all of them. Does not make its programs create tables.
fn evidence(tables: &mut impl XTables) -> Result<Evidence, IptablesError> {
    let mut has = |table, chain| Ok(if_present(tables.chain_rules(table, chain))?.flatten().is_some());
    let mut is_hinted = false;
    for hint in HINTS {
        is_hinted |= has("mangle", hint)?;
    }
    Ok(Evidence { is_hinted, serves: has("nat", "KUBE-SERVICES")? })
}

/// `None` if the programs are not installed, or the kernel has no such tables.
pub fn if_present<T>(read: Result<T, IptablesError>) -> Result<Option<T>, IptablesError> {
    match read {
        Err(error) if error.is_missing() || error.has_no_tables() => Ok(None),
        read => read.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_does_not_take_our_rules_gets_them_from_the_programs_and_the_reason_is_known() {
        let refused = || Err(IptablesError::Injected);
        let chosen = TableAccess::nft_if(Family::Ip, AccessPolicy::NetlinkFirst, refused);
        assert_eq!(
            (chosen.access.name().as_str(), chosen.fallback.is_some()),
            ("iptables-nft-restore", true)
        );
        let chosen = TableAccess::nft_if(Family::Ip, AccessPolicy::NetlinkFirst, || Ok(()));
        assert_eq!((chosen.access, chosen.fallback.is_some()), (TableAccess::Netlink(Family::Ip), false));
        let chosen = TableAccess::nft_if(Family::Ip6, AccessPolicy::CommandsOnly, || Ok(()));
        assert_eq!(
            (chosen.access.name().as_str(), chosen.fallback.is_some()),
            ("ip6tables-nft-restore", false)
        );
    }
}
