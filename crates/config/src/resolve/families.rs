//! Which IP families this node can be served in.

use ferrule_model::IpFamily;

/// Which families the host supports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilySupport {
    /// Whether the proxy mode works for IPv4 here.
    pub v4_works: bool,
    /// Whether it works for IPv6.
    pub v6_works: bool,
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
    /// The mode works for neither.
    #[error("the proxy mode works neither for IPv4 nor for IPv6 here, so no family can be served")]
    NoneSupported,
    /// The node's first address is of a family the machine cannot serve.
    #[error("the node's first address is {0}, which this machine does not support")]
    PrimaryUnsupported(IpFamily),
}

/// Chooses the families; dual-stack follows from the machine alone, not from the node's addresses.
pub fn families(host: &FamilySupport, primary: IpFamily) -> Result<Families, FamilyError> {
    let (v4, v6) = (host.v4_works, host.v6_works);
    if !v4 && !v6 {
        return Err(FamilyError::NoneSupported);
    }
    let v6 = v6 && host.has_if_inet6 && host.disable_ipv6.trim() != "1";
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

    fn support(v4: bool, v6: bool) -> FamilySupport {
        FamilySupport { v4_works: v4, v6_works: v6, has_if_inet6: true, disable_ipv6: "0\n".to_owned() }
    }

    #[test]
    fn dual_stack_follows_from_the_machine() {
        let dual = |host: &FamilySupport| families(host, IpFamily::V4).map(|found| found.stack);
        assert_eq!(dual(&support(true, true)), Ok(Stack::Dual));
        assert_eq!(dual(&support(true, false)), Ok(Stack::Single));
        assert_eq!(dual(&support(false, false)), Err(FamilyError::NoneSupported));
        let disabled = FamilySupport { disable_ipv6: "1\n".to_owned(), ..support(true, true) };
        assert_eq!(dual(&disabled), Ok(Stack::Single));
        let absent = FamilySupport { has_if_inet6: false, ..support(true, true) };
        assert_eq!(dual(&absent), Ok(Stack::Single));
    }

    #[test]
    fn an_unsupported_primary_family_is_fatal() {
        let disabled = FamilySupport { disable_ipv6: "1".to_owned(), ..support(true, true) };
        assert_eq!(families(&disabled, IpFamily::V6), Err(FamilyError::PrimaryUnsupported(IpFamily::V6)));
        assert_eq!(
            families(&support(false, true), IpFamily::V4),
            Err(FamilyError::PrimaryUnsupported(IpFamily::V4))
        );
    }
}
