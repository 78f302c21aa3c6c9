//! A family as the kernel's tables call it, and as Kubernetes does.

use ferrule_kernel::nft::Family;
use ferrule_model::IpFamily;

/// Kubernetes' family of a table.
pub fn ip_family(family: Family) -> IpFamily {
    match family {
        Family::Ip => IpFamily::V4,
        Family::Ip6 => IpFamily::V6,
    }
}

/// The family of the tables that serve a Kubernetes family.
pub fn table_family(family: IpFamily) -> Family {
    match family {
        IpFamily::V4 => Family::Ip,
        IpFamily::V6 => Family::Ip6,
    }
}
