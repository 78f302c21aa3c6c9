//! Which IP families this node can be served in.

use ferrule_model::IpFamily;

use crate::settings::ProxyMode;

/// What was found out about the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyFacts {
    /// Whether `iptables` works.
    pub iptables: bool,
    /// Whether `ip6tables` works.
    pub ip6tables: bool,
    /// Whether `/proc/net/if_inet6` exists.
    pub has_if_inet6: bool,
    /// The text of `/proc/sys/net/ipv6/conf/all/disable_ipv6`; unreadable counts as empty.
    pub disable_ipv6: String,
}

/// The families that are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Families {
    /// The one that comes first.
    pub primary: IpFamily,
    /// Whether the other is served too.
    pub stack: Stack,
}

/// One family or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// The primary one alone.
    Single,
    /// Both.
    Dual,
}

impl Families {
    /// The families that are served, IPv4 first.
    pub fn served(self) -> Vec<IpFamily> {
        match self.stack {
            Stack::Single => vec![self.primary],
            Stack::Dual => IpFamily::BOTH.to_vec(),
        }
    }
}

/// Why no family can be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FamilyError {
    /// The tools work for neither.
    #[error("neither iptables nor ip6tables works, so no family can be served in this mode")]
    NoneSupported,
    /// The node's first address is of a family the machine cannot serve.
    #[error("the node's first address is {0}, which this machine does not support")]
    PrimaryUnsupported(IpFamily),
}

/// Settles the families; dual-stack follows from the machine alone, not from the node's addresses.
pub fn families(mode: ProxyMode, facts: &FamilyFacts, primary: IpFamily) -> Result<Families, FamilyError> {
    let (v4, v6) = match mode {
        ProxyMode::Nftables => (true, true),
        ProxyMode::Iptables | ProxyMode::Ipvs | ProxyMode::Userspace => (facts.iptables, facts.ip6tables),
    };
    if !v4 && !v6 {
        return Err(FamilyError::NoneSupported);
    }
    let v6 = v6 && facts.has_if_inet6 && facts.disable_ipv6.trim() != "1";
    let supported = |family| match family {
        IpFamily::V4 => v4,
        IpFamily::V6 => v6,
    };
    if !supported(primary) {
        return Err(FamilyError::PrimaryUnsupported(primary));
    }
    Ok(Families { primary, stack: if supported(primary.other()) { Stack::Dual } else { Stack::Single } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(v4: bool, v6: bool) -> FamilyFacts {
        FamilyFacts { iptables: v4, ip6tables: v6, has_if_inet6: true, disable_ipv6: "0\n".to_owned() }
    }

    #[test]
    fn dual_stack_follows_from_the_machine() {
        let dual = |mode, facts: &FamilyFacts| families(mode, facts, IpFamily::V4).map(|found| found.stack);
        assert_eq!(dual(ProxyMode::Iptables, &facts(true, true)), Ok(Stack::Dual));
        assert_eq!(dual(ProxyMode::Iptables, &facts(true, false)), Ok(Stack::Single));
        assert_eq!(dual(ProxyMode::Nftables, &facts(false, false)), Ok(Stack::Dual));
        assert_eq!(dual(ProxyMode::Ipvs, &facts(false, false)), Err(FamilyError::NoneSupported));
        let disabled = FamilyFacts { disable_ipv6: "1\n".to_owned(), ..facts(true, true) };
        assert_eq!(dual(ProxyMode::Nftables, &disabled), Ok(Stack::Single));
        let absent = FamilyFacts { has_if_inet6: false, ..facts(true, true) };
        assert_eq!(dual(ProxyMode::Iptables, &absent), Ok(Stack::Single));
    }

    #[test]
    fn an_unsupported_primary_family_is_fatal() {
        let disabled = FamilyFacts { disable_ipv6: "1".to_owned(), ..facts(true, true) };
        assert_eq!(
            families(ProxyMode::Nftables, &disabled, IpFamily::V6),
            Err(FamilyError::PrimaryUnsupported(IpFamily::V6))
        );
        assert_eq!(
            families(ProxyMode::Iptables, &facts(false, true), IpFamily::V4),
            Err(FamilyError::PrimaryUnsupported(IpFamily::V4))
        );
    }
}
