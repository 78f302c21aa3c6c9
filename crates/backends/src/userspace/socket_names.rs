//! The names under which sockets are passed from one process to the next.
//!
//! The next process may be another version of the program, and must find the same sockets. So a name is made of text that is written
//! here and nowhere else. Names of Services are longer than systemd allows, so it is a digest.

use std::fmt::Write as _;

use ferrule_model::IpFamily;
use ferrule_plan::PoolScope;
use sha2::{Digest as _, Sha256};

use super::wanted::{Claim, PortalId};

/// The name of a socket of a Service port.
pub(super) fn portal_name(family: IpFamily, portal: &PortalId) -> String {
    match portal {
        PortalId::Service(owner, scope) => {
            let scope = match scope {
                PoolScope::Cluster => "cluster",
                PoolScope::Local => "local",
            };
            digest(family, &format!("v1 portal {owner} {} {scope}", owner.protocol))
        }
        PortalId::Refusing(protocol) => digest(family, &format!("v1 refusing {protocol}")),
    }
}

/// The name of a claimed port.
pub(super) fn claim_name(family: IpFamily, claim: &Claim) -> String {
    let address = claim.address.map_or_else(|| "any".to_owned(), |address| address.to_string());
    digest(family, &format!("v1 claim {address} {} {}", claim.protocol, claim.port))
}

fn digest(family: IpFamily, text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let mut name = prefix(family).to_owned();
    for byte in digest.iter().take(16) {
        // Writing to memory does not fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

/// What the names of a family begin with.
pub(super) fn prefix(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "v4-",
        IpFamily::V6 => "v6-",
    }
}

#[cfg(test)]
mod tests {
    use ferrule_model::{PortName, Protocol, ServiceName, ServicePortName};

    use super::*;

    /// A change of these loses the connections that wait while the program is updated.
    #[test]
    fn names_stay_as_they_are() {
        let (service, port) = (ServiceName::of("ns", "s"), PortName::new("p"));
        let owner = ServicePortName { service, port, protocol: Protocol::Tcp };
        let claim = Claim { address: None, protocol: Protocol::Tcp, port: 30080 };
        let names = [
            portal_name(IpFamily::V4, &PortalId::Service(owner.clone(), PoolScope::Cluster)),
            portal_name(IpFamily::V4, &PortalId::Service(owner, PoolScope::Local)),
            portal_name(IpFamily::V6, &PortalId::Refusing(Protocol::Udp)),
            claim_name(IpFamily::V4, &claim),
        ];
        let expected = [
            "v4-f22052a786dc7f76420aacf9d371c192",
            "v4-dec01e99b200c2591eaf6a09ab15ed3a",
            "v6-a476b902a2faa2025e861726fc0590d4",
            "v4-194016b723c7b646be3507f3108a40e8",
        ];
        assert_eq!(names, expected);
    }
}
