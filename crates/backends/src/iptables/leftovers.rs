//! Removes what iptables mode and ipvs mode left in iptables, ours or kube-proxy's, and nothing of other programs.
//!
//! `KUBE-FIREWALL` with its jumps stays, and so do the kubelet's chains: the kubelet uses them too.
//! Both variants of iptables are searched, since an earlier kube-proxy may have used the other one.

use std::collections::{BTreeMap, BTreeSet};

use ferrule_kernel::iptables::{
    CanonicalRule, ChainName, IptablesError, RestoreText, Saved, SavedTable, TableAccess, Variant, if_present,
};
use ferrule_kernel::nft::Family;
use ferrule_kernel::port::XTables;
use ferrule_kernel::sysctl::SysctlError;

use super::drain_rule::{DRAIN, drain_rule};
use super::localnet::{self, LOCALNET, LocalnetBefore};
use super::names::OF_SERVICES;

/// Chains of fixed names, by table. Those of ipvs mode are among them.
const CHAINS: &[(&str, &[&str])] = &[
    (
        "filter",
        &[
            "KUBE-SERVICES",
            "KUBE-EXTERNAL-SERVICES",
            "KUBE-FORWARD",
            "KUBE-NODEPORTS",
            "KUBE-PROXY-FIREWALL",
            "KUBE-PROXY-CANARY",
            "KUBE-NODE-PORT",
            "KUBE-SOURCE-RANGES-FIREWALL",
            "KUBE-IPVS-FILTER",
            "KUBE-IPVS-OUT-FILTER",
        ],
    ),
    (
        "nat",
        &[
            "KUBE-SERVICES",
            "KUBE-NODEPORTS",
            "KUBE-POSTROUTING",
            "KUBE-MARK-MASQ",
            "KUBE-PROXY-CANARY",
            "KUBE-NODE-PORT",
            "KUBE-LOAD-BALANCER",
            DRAIN,
        ],
    ),
    ("mangle", &["KUBE-PROXY-CANARY", LOCALNET]),
];

/// Those of them that ipvs mode alone has.
const OF_IPVS: [&str; 5] = [
    "KUBE-NODE-PORT",
    "KUBE-LOAD-BALANCER",
    "KUBE-SOURCE-RANGES-FIREWALL",
    "KUBE-IPVS-FILTER",
    "KUBE-IPVS-OUT-FILTER",
];

/// Those of userspace mode, which no other mode has.
const OF_USERSPACE: [(&str, &str); 6] = crate::userspace::CHAINS;

/// Those that both have, with other rules in them: which ones, the mode that runs has seen to.
const OF_BOTH: [(&str, &str); 5] = [
    ("nat", "KUBE-SERVICES"),
    ("nat", "KUBE-POSTROUTING"),
    ("nat", "KUBE-MARK-MASQ"),
    ("filter", "KUBE-FORWARD"),
    ("filter", "KUBE-PROXY-FIREWALL"),
];

/// How iptables mode jumps to a chain that both have, where ipvs mode does it in another way.
const JUMP_OF_IPTABLES: &str = r#"-m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL"#;
/// The other way round.
const JUMP_OF_IPVS: &str = r#"-m comment --comment "kube-proxy firewall rules" -j KUBE-PROXY-FIREWALL"#;

/// Whose rules go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// Those of iptables and of ipvs mode.
    Both,
    /// The same without what guards loopback addresses, where they cannot be closed to the network otherwise.
    BothUnguarded,
    /// Those of ipvs mode that iptables mode does not have.
    Ipvs,
    /// Those of iptables mode that ipvs mode does not have.
    Iptables,
    /// Those of both in table nat: open connections do not pass it.
    Nat,
    /// Those of ipvs mode in table nat, and its jump to a chain that is iptables mode's now.
    IpvsNat,
    /// Those of userspace mode.
    Userspace,
}

/// Rules that could not be removed.
#[derive(Debug, thiserror::Error)]
#[error("removing the iptables rules of an earlier run from {family}")]
pub struct LeftoverError {
    /// Whose rules.
    pub family: Family,
    /// Why, for the first program that failed.
    #[source]
    source: Box<LeftoverCause>,
}

impl LeftoverError {
    pub(super) fn into_cause(self) -> LeftoverCause {
        *self.source
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum LeftoverCause {
    #[error(transparent)]
    Iptables(#[from] IptablesError),
    #[error(
        "route_localnet stays on, though nothing needs it any more; switch it off: \
         sysctl -w net.ipv4.conf.all.route_localnet=0"
    )]
    Localnet(#[from] SysctlError),
}

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// How many chains.
    pub chains: usize,
    /// Whether `route_localnet` was switched off, which had been switched on for them.
    pub localnet_is_off: bool,
}

/// Removes what is left of iptables and ipvs mode in both families and both variants, and makes `route_localnet` what it was.
///
/// A variant whose programs are missing, or that this kernel does not have, has nothing left. Goes on after a failure.
pub fn remove_leftovers() -> Result<Removed, LeftoverError> {
    remove_everywhere(Whose::Both)
}

/// The same for what iptables mode alone left; ipvs mode has made the rest its own.
pub fn remove_iptables_leftovers() -> Result<Removed, LeftoverError> {
    remove_everywhere(Whose::Iptables)
}

/// The same for what ipvs mode alone left; iptables mode has made the rest its own.
pub fn remove_ipvs_leftovers() -> Result<Removed, LeftoverError> {
    remove_everywhere(Whose::Ipvs)
}

/// The same for what userspace mode left.
pub fn remove_userspace_leftovers() -> Result<Removed, LeftoverError> {
    remove_everywhere(Whose::Userspace)
}

/// The same for what both left in table nat, and nothing else.
pub fn remove_nat_leftovers() -> Result<Removed, LeftoverError> {
    remove_everywhere(Whose::Nat)
}

/// The same for what ipvs mode alone left there, and its jump to a chain of which iptables mode has made its own.
pub fn remove_ipvs_nat_leftovers() -> Result<Removed, LeftoverError> {
    remove_everywhere(Whose::IpvsNat)
}

fn remove_everywhere(whose: Whose) -> Result<Removed, LeftoverError> {
    let (mut removed, mut failed) = (Removed::default(), None);
    for family in [Family::Ip, Family::Ip6] {
        for access in installed(family) {
            match remove(access, whose) {
                Ok(here) => {
                    removed.chains += here.chains;
                    removed.localnet_is_off |= here.localnet_is_off;
                }
                Err(source) => failed = failed.or(Some(LeftoverError { family, source: source.into() })),
            }
        }
    }
    failed.map_or(Ok(removed), Err)
}

/// Each variant once. What is called `iptables` alone is one of the two, and counts where that one can be had in no other way.
pub(super) fn installed(family: Family) -> Vec<TableAccess> {
    let mut installed: Vec<TableAccess> = Variant::BOTH
        .map(|variant| TableAccess::for_removal(family, variant))
        .into_iter()
        .filter(is_usable)
        .collect();
    let default = TableAccess::for_removal(family, Variant::Default);
    let is_another = |kind| installed.iter().all(|access| access.variant() != Some(kind));
    if is_usable(&default) && default.variant().is_none_or(is_another) {
        installed.push(default);
    }
    installed
}

fn is_usable(access: &TableAccess) -> bool {
    match access {
        TableAccess::Netlink(_) => true,
        TableAccess::Commands(commands) => commands.are_installed(),
    }
}

/// Removes what is left in the variant that is not used, after a node changed from one to the other.
pub fn remove_from_other_variant(used: TableAccess) -> Result<usize, LeftoverError> {
    let (Some(kind), family) = (used.variant(), used.family()) else { return Ok(0) };
    let Some(other) = Variant::BOTH.into_iter().find(|variant| *variant != kind) else { return Ok(0) };
    let other = TableAccess::for_removal(family, other);
    let removed = other.open().and_then(|mut tables| remove_rules(&mut tables, Whose::Both));
    removed.map_err(|source| LeftoverError { family, source: Box::new(source.into()) })
}

/// Removes rules, and the setting that only they needed.
fn remove(access: TableAccess, whose: Whose) -> Result<Removed, LeftoverCause> {
    let tables = &mut access.open()?;
    // With our own rules there too, reading all of them would take long in a large cluster. The `legacy` variant is read faster,
    // and asking it for a chain would load its tables.
    let needs_no_setting = whose == Whose::Ipvs || whose == Whose::Userspace || whose.keeps_drain();
    let ask_first = matches!(whose, Whose::Ipvs | Whose::IpvsNat | Whose::Userspace)
        && access.variant() == Some(Variant::Nft);
    // While ipvs mode drains, only its chains in other tables are left of it.
    let asked = if whose == Whose::IpvsNat { Whose::Ipvs } else { whose };
    if ask_first && !has_chains(tables, asked)? {
        return Ok(Removed::default());
    }
    if needs_no_setting || access.family() == Family::Ip6 {
        return Ok(Removed { chains: remove_rules(tables, whose)?, localnet_is_off: false });
    }
    let Some(saved) = if_present(tables.save())? else { return Ok(Removed::default()) };
    // Before the rules, which are the only ones to tell what it was.
    let restored = LocalnetBefore::recorded(&saved).map_or(Ok(false), localnet::restore);
    let whose = match (restored.is_ok(), whose) {
        (true, whose) => whose,
        // The chain that guards loopback addresses is one of them.
        (false, Whose::Iptables) => {
            restored?;
            return Ok(Removed::default());
        }
        (false, _) => Whose::BothUnguarded,
    };
    let chains = remove_saved(tables, &saved, whose)?;
    Ok(Removed { chains, localnet_is_off: restored? })
}

fn remove_rules(tables: &mut impl XTables, whose: Whose) -> Result<usize, IptablesError> {
    match if_present(tables.save())? {
        Some(saved) => remove_saved(tables, &saved, whose),
        None => Ok(0),
    }
}

fn remove_saved(tables: &mut impl XTables, saved: &Saved, whose: Whose) -> Result<usize, IptablesError> {
    let removal = Removal::new(saved, whose);
    let mut text = removal.text;
    if whose.keeps_drain() {
        text.append(&drain_rule(saved, tables.family()).unwrap_or_default());
    }
    if !text.is_empty() {
        tables.restore(&text)?;
    }
    check_unreadable(tables, saved, whose)?;
    Ok(removal.chains)
}

/// Whether there is anything of them, asked chain by chain.
fn has_chains(tables: &mut impl XTables, whose: Whose) -> Result<bool, IptablesError> {
    let fixed = CHAINS.iter().flat_map(|(table, chains)| chains.iter().map(|chain| (*table, *chain)));
    for (table, chain) in fixed.chain(OF_USERSPACE).filter(|(table, chain)| whose.has(table, chain)) {
        match if_present(tables.chain_rules(table, chain))? {
            None => return Ok(false),
            Some(None) => {}
            Some(Some(_)) => return Ok(true),
        }
    }
    Ok(false)
}

/// A table that cannot be read keeps what is ours in it. One that has no chain of ours is another program's affair.
pub(super) fn check_unreadable(
    kernel: &mut impl XTables,
    saved: &Saved,
    whose: Whose,
) -> Result<(), IptablesError> {
    for table in &saved.unreadable {
        for chain in chains_of(table).iter().filter(|chain| whose.has(table, chain)) {
            if kernel.chain_rules(table, chain)?.is_some() {
                return Err(IptablesError::Unreadable { family: kernel.family(), table: table.clone() });
            }
        }
    }
    Ok(())
}

/// What makes the leftovers go.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Removal {
    /// For `iptables-restore --noflush`.
    pub text: RestoreText,
    /// How many chains it is about.
    pub chains: usize,
}

impl Removal {
    pub(super) fn new(saved: &Saved, whose: Whose) -> Self {
        let mut removal = Self::default();
        for table in &saved.tables {
            removal.add_table(table, whose);
        }
        removal
    }

    fn add_table(&mut self, table: &SavedTable, whose: Whose) {
        // A table that none of our chains can be in has none, so its name is one of these.
        let Some((name, _)) = CHAINS.iter().find(|(name, _)| *name == table.name) else { return };
        let chains = table.chains.iter().map(|chain| &chain.name);
        let ours = chains.filter(|chain| whose.has(name, chain.as_str()));
        let ours: BTreeMap<&str, &ChainName> = ours.map(|chain| (chain.as_str(), chain)).collect();
        self.chains += ours.len();
        let built_in =
            |name: &ChainName| table.chains.iter().any(|chain| chain.name == *name && chain.policy.is_some());
        // Another program's chain that jumps into one of ours would make its removal fail, and with it everything.
        let (mut jumps, mut held, stale) = (Vec::new(), BTreeSet::new(), whose.stale_jump());
        for rule in table.rules.iter().filter(|rule| !ours.contains_key(rule.chain.as_str())) {
            let words = CanonicalRule::parse(rule.text.as_str());
            match words.target().and_then(|target| ours.get(target)) {
                _ if stale.as_ref() == Some(&words) && built_in(&rule.chain) => {
                    jumps.push(rule);
                }
                Some(_) if built_in(&rule.chain) => jumps.push(rule),
                Some(target) => drop(held.insert(*target)),
                None => {}
            }
        }
        if ours.is_empty() && jumps.is_empty() {
            return;
        }
        self.text.table(name, |lines| {
            for chain in ours.values() {
                lines.chain(*chain);
            }
            for rule in jumps {
                lines.delete(&rule.chain, &rule.text);
            }
            for chain in ours.values().filter(|chain| !held.contains(*chain)) {
                lines.remove(*chain);
            }
        });
    }
}

impl Whose {
    /// Whether a chain is one of them.
    pub(super) fn has(self, table: &str, chain: &str) -> bool {
        let is_fixed = chains_of(table).contains(&chain);
        let of_services = table == "nat" && OF_SERVICES.iter().any(|beginning| chain.starts_with(beginning));
        match self {
            Self::Both => is_fixed || of_services,
            Self::BothUnguarded => (is_fixed && chain != LOCALNET) || of_services,
            Self::Ipvs => is_fixed && (OF_IPVS.contains(&chain) || chain == DRAIN),
            Self::Nat => table == "nat" && (is_fixed && chain != DRAIN || of_services),
            Self::IpvsNat => table == "nat" && is_fixed && OF_IPVS.contains(&chain),
            Self::Userspace => OF_USERSPACE.contains(&(table, chain)),
            Self::Iptables => {
                let is_shared = OF_BOTH.contains(&(table, chain)) || OF_IPVS.contains(&chain);
                is_fixed && !is_shared || of_services
            }
        }
    }

    /// Whether connections of ipvs mode drain meanwhile.
    fn keeps_drain(self) -> bool {
        matches!(self, Self::Nat | Self::IpvsNat)
    }

    /// A jump to a chain that stays.
    fn stale_jump(self) -> Option<CanonicalRule> {
        match self {
            Self::Both | Self::BothUnguarded | Self::Nat | Self::Userspace => None,
            Self::Ipvs | Self::IpvsNat => Some(CanonicalRule::parse(JUMP_OF_IPVS)),
            Self::Iptables => Some(CanonicalRule::parse(JUMP_OF_IPTABLES)),
        }
    }
}

fn chains_of(table: &str) -> &'static [&'static str] {
    CHAINS.iter().find(|(of, _)| *of == table).map_or(&[][..], |(_, chains)| chains)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn removal(text: &str) -> Removal {
        Removal::new(&Saved::parse(text), Whose::Both)
    }

    #[test]
    fn nothing_of_others_is_touched() {
        let text = "*filter\n:INPUT ACCEPT [0:0]\n:KUBE-FIREWALL - [0:0]\n:DOCKER - [0:0]\n-A INPUT -j KUBE-FIREWALL\n\
            -A INPUT -j DOCKER\nCOMMIT\n*mangle\n:KUBE-IPTABLES-HINT - [0:0]\n:KUBE-KUBELET-CANARY - [0:0]\nCOMMIT\n\
            *raw\n:KUBE-SERVICES - [0:0]\nCOMMIT\n";
        assert_eq!(removal(text), Removal::default());
    }

    #[test]
    fn chains_and_the_jumps_to_them_go() {
        let text = "*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-X - [0:0]\n\
            -A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n-A PREROUTING -j OTHER\n\
            -A KUBE-SERVICES -j KUBE-SVC-X\nCOMMIT\n";
        let expected = "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-X - [0:0]\n\
            -D PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
            -X KUBE-SERVICES\n-X KUBE-SVC-X\nCOMMIT\n";
        assert_eq!(removal(text), Removal { text: RestoreText::literal(expected), chains: 2 });
    }

    #[test]
    fn a_chain_another_program_jumps_to_is_emptied_and_stays() {
        let text = "*nat\n:CNI - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n-A CNI -j KUBE-MARK-MASQ\nCOMMIT\n";
        assert_eq!(removal(text).text.as_str(), "*nat\n:KUBE-MARK-MASQ - [0:0]\nCOMMIT\n");
    }

    #[test]
    fn of_ipvs_mode_goes_what_iptables_mode_does_not_have() {
        let text = "*filter\n:INPUT ACCEPT [0:0]\n:KUBE-FORWARD - [0:0]\n:KUBE-IPVS-FILTER - [0:0]\n-A INPUT -j KUBE-IPVS-FILTER\n\
            -A INPUT -j KUBE-FORWARD\nCOMMIT\n*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-X - [0:0]\n-A KUBE-SERVICES -j KUBE-SVC-X\nCOMMIT\n";
        let expected =
            "*filter\n:KUBE-IPVS-FILTER - [0:0]\n-D INPUT -j KUBE-IPVS-FILTER\n-X KUBE-IPVS-FILTER\nCOMMIT\n";
        assert_eq!(Removal::new(&Saved::parse(text), Whose::Ipvs).text.as_str(), expected);
    }

    #[test]
    fn while_connections_drain_only_what_is_in_the_way_goes() {
        let text = "*filter\n:INPUT ACCEPT [0:0]\n:KUBE-PROXY-FIREWALL - [0:0]\n:KUBE-IPVS-FILTER - [0:0]\n\
            -A INPUT -m comment --comment \"kube-proxy firewall rules\" -j KUBE-PROXY-FIREWALL\n\
            -A INPUT -j KUBE-IPVS-FILTER\nCOMMIT\n\
            *nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n:KUBE-LOAD-BALANCER - [0:0]\n-A PREROUTING -j KUBE-SERVICES\nCOMMIT\n";
        let saved = Saved::parse(text);
        let of_both = "*nat\n:KUBE-LOAD-BALANCER - [0:0]\n:KUBE-SERVICES - [0:0]\n-D PREROUTING -j KUBE-SERVICES\n\
            -X KUBE-LOAD-BALANCER\n-X KUBE-SERVICES\nCOMMIT\n";
        assert_eq!(Removal::new(&saved, Whose::Nat).text.as_str(), of_both);
        let of_ipvs = "*filter\n-D INPUT -m comment --comment \"kube-proxy firewall rules\" -j KUBE-PROXY-FIREWALL\nCOMMIT\n\
            *nat\n:KUBE-LOAD-BALANCER - [0:0]\n-X KUBE-LOAD-BALANCER\nCOMMIT\n";
        assert_eq!(Removal::new(&saved, Whose::IpvsNat).text.as_str(), of_ipvs);
    }

    #[test]
    fn of_iptables_mode_goes_what_ipvs_mode_does_not_have() {
        let text = "*filter\n:INPUT ACCEPT [0:0]\n:KUBE-PROXY-FIREWALL - [0:0]\n:KUBE-IPVS-FILTER - [0:0]\n:KUBE-SERVICES - [0:0]\n\
            -A INPUT -m comment --comment \"kube-proxy firewall rules\" -j KUBE-PROXY-FIREWALL\n\
            -A INPUT -m conntrack --ctstate NEW -m comment --comment \"kubernetes load balancer firewall\" -j KUBE-PROXY-FIREWALL\n\
            -A INPUT -j KUBE-SERVICES\n-A INPUT -j KUBE-IPVS-FILTER\nCOMMIT\n\
            *nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-X - [0:0]\n-A PREROUTING -j KUBE-SERVICES\nCOMMIT\n";
        let expected = "*filter\n:KUBE-SERVICES - [0:0]\n\
            -D INPUT -m conntrack --ctstate NEW -m comment --comment \"kubernetes load balancer firewall\" -j KUBE-PROXY-FIREWALL\n\
            -D INPUT -j KUBE-SERVICES\n-X KUBE-SERVICES\nCOMMIT\n*nat\n:KUBE-SVC-X - [0:0]\n-X KUBE-SVC-X\nCOMMIT\n";
        assert_eq!(Removal::new(&Saved::parse(text), Whose::Iptables).text.as_str(), expected);
    }
}
