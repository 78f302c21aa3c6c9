//! The chains of a Service port: how connections are spread, and what one endpoint is.

use ferrule_kernel::iptables::{Block, Probability, Quoted, RuleBuilder, RuleText};
use ferrule_plan::{LocalPods, NodeTraffic, Pool, PoolEndpoint, PoolScope};

use ipnet::IpNet;

use super::names::{MARK, PortNames, address};

/// Whether the rules of endpoints say whose they are; with very many endpoints that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndpointComments {
    Written,
    LeftOut,
}

impl EndpointComments {
    const MAX_COMMENTED_ENDPOINTS: usize = 1000;

    pub(super) fn with(endpoints: usize) -> Self {
        if endpoints > Self::MAX_COMMENTED_ENDPOINTS { Self::LeftOut } else { Self::Written }
    }

    /// Begins a rule, with the comment if it is written.
    fn begin(self, comment: &str) -> RuleBuilder {
        match self {
            Self::Written => RuleText::build().comment(comment),
            Self::LeftOut => RuleText::build(),
        }
    }
}

/// Whether clients stay with their endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Affinity {
    None,
    ClientIp,
}

impl Affinity {
    pub(super) fn from_pool(pool: &Pool) -> Self {
        if pool.affinity_seconds.is_some() { Self::ClientIp } else { Self::None }
    }
}

/// The rules that spread connections over a pool.
pub(super) fn spreading(names: &PortNames, pool: &Pool, comments: EndpointComments) -> Vec<RuleText> {
    let begin = |endpoint: &PoolEndpoint| comments.begin(&format!("{} -> {}", names.text, address(endpoint)));
    let mut rules = Vec::with_capacity(pool.endpoints.len());
    if let Some(seconds) = pool.affinity_seconds {
        for endpoint in &pool.endpoints {
            let chain = names.endpoint(endpoint);
            let known = begin(endpoint).with("-m recent --name").with(&chain).with("--rcheck --seconds");
            rules.push(known.with(seconds).with("--reap -j").with(&chain).done());
        }
    }
    let count = pool.endpoints.len();
    for (at, endpoint) in pool.endpoints.iter().enumerate() {
        let left = count - at;
        let rule = match begin(endpoint) {
            rule if left > 1 => rule.with("-m statistic --mode random --probability").with(probability(left)),
            rule => rule,
        };
        rules.push(rule.with("-j").with(&names.endpoint(endpoint)).done());
    }
    rules
}

/// The chance of the first of so many.
pub(super) fn probability(of: usize) -> Probability {
    // Far below 2^52 endpoints, so nothing is lost.
    #[expect(clippy::cast_precision_loss, reason = "a number of endpoints")]
    let share = 1.0 / of as f64;
    Probability(share)
}

/// The rules of one endpoint: one that gets its own packet back must not see itself as the client.
pub(super) fn endpoint(
    names: &PortNames,
    endpoint: &PoolEndpoint,
    affinity: Affinity,
    comments: EndpointComments,
) -> Vec<RuleText> {
    let own = comments.begin(&names.text).with("-s").with(endpoint.ip).with("-j").with(MARK);
    let remembered = comments.begin(&names.text);
    let remembered = match affinity {
        Affinity::ClientIp => {
            remembered.with("-m recent --name").with(&names.endpoint(endpoint)).with("--set")
        }
        Affinity::None => remembered,
    };
    let protocol = names.matching_protocol().done();
    let translated = remembered.with(&protocol).with("-j DNAT --to-destination").with(address(endpoint));
    vec![own.done(), translated.done()]
}

/// Matches packets of this node's pods, and all others.
pub(super) fn local_pods(node: &NodeTraffic) -> Option<[RuleText; 2]> {
    let of = match node.local_pods.as_ref()? {
        LocalPods::From(block) => RuleText::build().with("-s").with(written(block)),
        LocalPods::ByInterface(name) => RuleText::build().with("-i").with(Quoted::new(name)),
        LocalPods::ByInterfacePrefix(prefix) => RuleText::build().with("-i").with(beginning_with(prefix)),
    };
    let of = of.done();
    let others = RuleText::build().with("!").with(&of).done();
    Some([of, others])
}

/// Every interface whose name begins so: for iptables that is a plus sign behind it. Where there is no room for one, there is
/// none for a longer name either.
pub(crate) fn beginning_with(prefix: &str) -> Quoted {
    const MAX_INTERFACE_NAME: usize = 15;
    let wildcard = if prefix.len() < MAX_INTERFACE_NAME { "+" } else { "" };
    Quoted::new(&format!("{prefix}{wildcard}"))
}

/// A block as rules have it.
pub(super) fn written(block: &IpNet) -> Block {
    Block { address: block.addr(), length: block.prefix_len() }
}

/// The two pools there are.
pub(super) const SCOPES: [PoolScope; 2] = [PoolScope::Cluster, PoolScope::Local];

#[cfg(test)]
mod tests {
    use super::*;

    /// Row: iptables J15
    #[test]
    fn probabilities_have_ten_decimals_and_fall_with_every_endpoint() {
        let shown = [1, 2, 3, 10, 100_001].map(|of| probability(of).to_string());
        assert_eq!(shown, ["1.0000000000", "0.5000000000", "0.3333333333", "0.1000000000", "0.0000099999"]);
        let all: Vec<String> = (2..=100_000).map(|of| probability(of).to_string()).collect();
        assert!(all.windows(2).all(|pair| pair[0] > pair[1]));
    }
}
