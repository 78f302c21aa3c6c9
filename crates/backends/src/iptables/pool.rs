//! The chains of a Service port: how connections are spread, and what one endpoint is.

use ferrule_plan::{LocalPods, NodeTraffic, Pool, PoolEndpoint, PoolScope};

use super::names::{MARK, PortNames, address};

/// Whether the rules of endpoints say whose they are; with very many endpoints that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndpointComments {
    Written,
    LeftOut,
}

impl EndpointComments {
    /// With more endpoints than this, they are left out.
    const MOST: usize = 1000;

    pub(super) fn with(endpoints: usize) -> Self {
        if endpoints > Self::MOST { Self::LeftOut } else { Self::Written }
    }

    fn text(self, comment: &str) -> String {
        let quote = if comment.contains(' ') { "\"" } else { "" };
        match self {
            Self::Written => format!("-m comment --comment {quote}{comment}{quote} "),
            Self::LeftOut => String::new(),
        }
    }
}

/// The rules that spread connections over a pool.
pub(super) fn spreading(names: &PortNames, pool: &Pool, comments: EndpointComments) -> Vec<String> {
    let comment =
        |endpoint: &PoolEndpoint| comments.text(&format!("{} -> {}", names.text, address(endpoint)));
    let mut rules = Vec::with_capacity(pool.endpoints.len());
    if let Some(seconds) = pool.affinity_seconds {
        for endpoint in &pool.endpoints {
            let chain = names.endpoint(endpoint);
            rules.push(format!(
                "{}-m recent --name {chain} --rcheck --seconds {seconds} --reap -j {chain}",
                comment(endpoint)
            ));
        }
    }
    let count = pool.endpoints.len();
    for (at, endpoint) in pool.endpoints.iter().enumerate() {
        let left = count - at;
        let chance = if left > 1 {
            format!("-m statistic --mode random --probability {} ", probability(left))
        } else {
            String::new()
        };
        rules.push(format!("{}{chance}-j {}", comment(endpoint), names.endpoint(endpoint)));
    }
    rules
}

/// The chance of the first of so many.
pub(super) fn probability(of: usize) -> String {
    // Far below 2^52 endpoints, so nothing is lost.
    #[expect(clippy::cast_precision_loss, reason = "a number of endpoints")]
    let share = 1.0 / of as f64;
    format!("{share:.10}")
}

/// The rules of one endpoint: one that gets its own packet back must not see itself as the client.
pub(super) fn endpoint(
    names: &PortNames,
    endpoint: &PoolEndpoint,
    (is_sticky, comments): (bool, EndpointComments),
) -> Vec<String> {
    let comment = comments.text(&names.text);
    let protocol = names.protocol;
    let sticky = if is_sticky {
        format!("-m recent --name {} --set ", names.endpoint(endpoint))
    } else {
        String::new()
    };
    vec![
        format!("{comment}-s {} -j {MARK}", endpoint.ip),
        format!(
            "{comment}{sticky}-m {protocol} -p {protocol} -j DNAT --to-destination {}",
            address(endpoint)
        ),
    ]
}

/// How packets of this node's pods, or those of everybody else, are known.
pub(super) fn local_pods(node: &NodeTraffic) -> Option<[String; 2]> {
    let of = match node.local_pods.as_ref()? {
        LocalPods::From(block) => format!("-s {block}"),
        LocalPods::ByInterface(name) => format!("-i {name}"),
        LocalPods::ByInterfacePrefix(prefix) => format!("-i {prefix}+"),
    };
    let others = format!("! {of}");
    Some([of, others])
}

/// The two pools there are.
pub(super) const SCOPES: [PoolScope; 2] = [PoolScope::Cluster, PoolScope::Local];

#[cfg(test)]
mod tests {
    use super::*;

    /// Row: iptables J15
    #[test]
    fn probabilities_have_ten_decimals_and_fall_with_every_endpoint() {
        let shown = [1, 2, 3, 10, 100_001].map(probability);
        assert_eq!(shown, ["1.0000000000", "0.5000000000", "0.3333333333", "0.1000000000", "0.0000099999"]);
        let all: Vec<String> = (2..=100_000).map(probability).collect();
        assert!(all.windows(2).all(|pair| pair[0] > pair[1]));
    }
}
