//! The names of chains, as kube-proxy makes them.

use std::net::{IpAddr, SocketAddr};

use ferrule_kernel::iptables::{ChainName, RuleBuilder, RuleText};
use ferrule_model::{Protocol, ServicePortName};
use ferrule_plan::{FamilyPlan, PoolEndpoint, PoolScope};

use sha2::{Digest as _, Sha256};

/// How the names of a Service port's chains begin; all are in table nat.
pub(super) const OF_SERVICES: [&str; 5] = ["KUBE-SVC-", "KUBE-SVL-", "KUBE-SEP-", "KUBE-FW-", "KUBE-EXT-"];
/// Those of them whose rules are about endpoints.
pub(super) const OF_POOLS: [&str; 3] = ["KUBE-SVC-", "KUBE-SVL-", "KUBE-SEP-"];
/// The chain whose absence shows that another program flushed the tables.
pub const CANARY: &str = "KUBE-PROXY-CANARY";
pub(super) const MARK: &str = "KUBE-MARK-MASQ";
pub(super) const FIREWALL: &str = "KUBE-FIREWALL";

/// All chains of a Service port.
pub(super) fn port_chains(owner: &ServicePortName, plan: &FamilyPlan) -> Vec<String> {
    let names = PortNames::new(owner);
    let scopes = [PoolScope::Cluster, PoolScope::Local];
    let pools = scopes.into_iter().filter_map(|scope| plan.pool(owner, scope));
    let endpoints = pools.flat_map(|pool| pool.endpoints.iter()).map(|endpoint| names.endpoint(endpoint));
    let own = scopes.map(|scope| names.pool(scope)).into_iter().chain([names.external(), names.firewall()]);
    own.chain(endpoints).map(|chain| chain.to_string()).collect()
}

/// What the chains of a Service port are called, and what it is called in comments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PortNames {
    /// `namespace/name:port`
    pub text: String,
    pub protocol: Protocol,
    hash: String,
}

impl PortNames {
    pub(super) fn new(owner: &ServicePortName) -> Self {
        let (text, protocol) = (owner.to_string(), owner.protocol);
        let hash = hash(&format!("{text}{protocol}"));
        Self { text, protocol, hash }
    }

    /// The chain that spreads connections over a pool.
    pub(super) fn pool(&self, scope: PoolScope) -> ChainName {
        match scope {
            PoolScope::Cluster => ChainName::with_prefix("KUBE-SVC-", &self.hash),
            PoolScope::Local => ChainName::with_prefix("KUBE-SVL-", &self.hash),
        }
    }

    /// The chain for what comes to external addresses.
    pub(super) fn external(&self) -> ChainName {
        ChainName::with_prefix("KUBE-EXT-", &self.hash)
    }

    /// The chain that looks at source ranges.
    pub(super) fn firewall(&self) -> ChainName {
        ChainName::with_prefix("KUBE-FW-", &self.hash)
    }

    /// The chain of one endpoint.
    pub(super) fn endpoint(&self, endpoint: &PoolEndpoint) -> ChainName {
        let hash = hash(&format!("{}{}{}", self.text, self.protocol, address(endpoint)));
        ChainName::with_prefix("KUBE-SEP-", &hash)
    }

    /// The protocol in the words of rules.
    pub(super) fn protocol(&self) -> &'static str {
        match self.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Sctp => "sctp",
        }
    }

    /// `-m tcp -p tcp`
    pub(super) fn matching_protocol(&self) -> RuleBuilder {
        let protocol = self.protocol();
        RuleText::build().with("-m").with(protocol).with("-p").with(protocol)
    }
}

/// `10.244.1.5:8080`, `[fd00::5]:8080`
pub(super) fn address(endpoint: &PoolEndpoint) -> SocketAddr {
    // An IPv4 address is written as such, also where it came in the clothes of an IPv6 one.
    let ip: IpAddr = endpoint.ip.to_canonical();
    SocketAddr::new(ip, endpoint.port)
}

/// The first 16 characters of the digest in base 32 (RFC 4648).
fn hash(text: &str) -> String {
    const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    const LENGTH: usize = 16;
    let digest = Sha256::digest(text);
    let bit = |at: usize| digest[at / 8] >> (7 - at % 8) & 1;
    let character = |at: usize| {
        let number = (at * 5..at * 5 + 5).fold(0, |number, at| number << 1 | bit(at));
        char::from(ALPHABET[usize::from(number)])
    };
    (0..LENGTH).map(character).collect()
}

#[cfg(test)]
mod tests {
    use ferrule_model::{PortName, ServiceName};

    use super::*;

    fn names(service: &str, port: &str, protocol: Protocol) -> PortNames {
        let (service, port) = (ServiceName::new(service), PortName::new(port));
        PortNames::new(&ServicePortName { service, port, protocol })
    }

    #[test]
    fn names_are_those_of_kube_proxy() {
        let svc1 = names("ns1/svc1", "p80", Protocol::Tcp);
        assert_eq!(svc1.pool(PoolScope::Cluster).as_str(), "KUBE-SVC-XPGD46QRK7WJZT7O");
        let endpoint = PoolEndpoint { ip: "10.180.0.1".parse().unwrap(), port: 80, is_local: false };
        assert_eq!(svc1.endpoint(&endpoint).as_str(), "KUBE-SEP-SXIVWICOYRO3J4NJ");
        let dns = names("kube-system/kube-dns", "dns", Protocol::Udp);
        assert_eq!(dns.external().as_str(), "KUBE-EXT-TCOU7JCQXEZGVUNU");
        let unnamed = names("shop/itl", "", Protocol::Tcp);
        assert_eq!(unnamed.pool(PoolScope::Local).as_str(), "KUBE-SVL-5VKOFMF3EIZVW3TE");
        let six = PoolEndpoint { ip: "fd00:244:1::5".parse().unwrap(), port: 8080, is_local: true };
        assert_eq!(
            names("shop/web6", "http", Protocol::Tcp).endpoint(&six).as_str(),
            "KUBE-SEP-CGFR5YCB4BQQG5YO"
        );
    }
}
