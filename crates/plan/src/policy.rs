//! Turns a Service's traffic policies, source ranges and masquerading into rules.
//!
//! Decides *who may reach what*, never *which endpoint*: pools are made in [`crate::pools`].
//! Knows no backend; differences between kube-proxy's modes arrive as [`Quirk`]s.

use std::sync::Arc;

use ferrule_model::TrafficPolicy;
use ipnet::IpNet;

use crate::pools::Facts;
use crate::{NodeTraffic, PoolScope, Quirk, Rules, TrafficSource, Verdict};

/// What the rules of one Service port depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PolicyInput<'a> {
    pub node: &'a NodeTraffic,
    pub facts: Facts,
    pub internal: TrafficPolicy,
    pub external: TrafficPolicy,
}

/// Where a frontend's address is: elsewhere, so that the host's own packets to it leave the node, or on the node itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Elsewhere,
    ThisNode,
}

impl PolicyInput<'_> {
    /// The rules of the cluster IP.
    pub(crate) fn internal_rules(&self) -> Rules {
        let verdict = match self.internal {
            _ if !self.facts.any => Verdict::Reject,
            TrafficPolicy::Cluster => self.forward(PoolScope::Cluster),
            TrafficPolicy::Local => self.local_or_not(Verdict::Drop),
        };
        match verdict {
            Verdict::Forward { pool, .. } => self.masqueraded_unless_from_pods(pool),
            Verdict::Drop | Verdict::Reject | Verdict::LeaveAlone => Rules::anyone(verdict),
        }
    }

    /// The rules of external IPs, load-balancer addresses and NodePorts, before source ranges.
    pub(crate) fn external_rules(&self, reach: Reach) -> Rules {
        if !self.facts.any {
            return self.refusal(reach);
        }
        match self.external {
            TrafficPolicy::Cluster => Rules::anyone(masqueraded(PoolScope::Cluster)),
            TrafficPolicy::Local if self.has(Quirk::OnePoolPerFrontend) => {
                Rules::anyone(self.local_or_not(Verdict::Drop))
            }
            TrafficPolicy::Local => self.short_circuited(),
        }
    }

    /// The same, with sources outside the ranges dropped before anything else, if there are ranges.
    pub(crate) fn external_rules_within(&self, ranges: Option<&Arc<[IpNet]>>, reach: Reach) -> Rules {
        let rules = self.external_rules(reach);
        let ignored = !self.facts.any && self.has(Quirk::RangesIgnoredWithoutEndpoints);
        match ranges.filter(|_| !ignored) {
            Some(ranges) => {
                rules.preceded_by(TrafficSource::OutsideRanges(Arc::clone(ranges)), Verdict::Drop)
            }
            None => rules,
        }
    }

    /// Pods and the host reach external addresses as if they had left the cluster and come back, so the policy, which
    /// is about outsiders' source addresses, does not hold for them.
    fn short_circuited(&self) -> Rules {
        let mut exceptions = Vec::with_capacity(2);
        if self.node.local_pods.is_some() {
            exceptions.push((TrafficSource::LocalPods, self.forward(PoolScope::Cluster)));
        }
        exceptions.push((TrafficSource::ThisHost, masqueraded(PoolScope::Cluster)));
        Rules::new(exceptions, self.local_or_not(Verdict::Drop))
    }

    fn refusal(&self, reach: Reach) -> Rules {
        if reach == Reach::Elsewhere && self.has(Quirk::HostBypassesExternalRefusals) {
            Rules::new(vec![(TrafficSource::ThisHost, Verdict::LeaveAlone)], Verdict::Reject)
        } else {
            Rules::anyone(Verdict::Reject)
        }
    }

    /// Endpoints of this node, or what is said in their absence.
    fn local_or_not(&self, absent: Verdict) -> Verdict {
        if self.facts.local {
            self.forward(PoolScope::Local)
        } else if !self.has(Quirk::LocalFallsBackToCluster) {
            absent
        } else if self.facts.cluster {
            self.forward(PoolScope::Cluster)
        } else {
            // A virtual server without real servers answers "port unreachable".
            Verdict::Reject
        }
    }

    fn masqueraded_unless_from_pods(&self, pool: PoolScope) -> Rules {
        if self.node.masquerade_all {
            Rules::anyone(masqueraded(pool))
        } else if self.node.local_pods.is_some() {
            Rules::new(vec![(TrafficSource::LocalPods, self.forward(pool))], masqueraded(pool))
        } else {
            Rules::anyone(self.forward(pool))
        }
    }

    /// Forwarding with the source address kept; a pool with nothing in it refuses.
    fn forward(&self, pool: PoolScope) -> Verdict {
        let exists = match pool {
            PoolScope::Cluster => self.facts.cluster,
            PoolScope::Local => self.facts.local,
        };
        if exists { Verdict::Forward { pool, masquerade: false } } else { Verdict::Reject }
    }

    fn has(&self, quirk: Quirk) -> bool {
        self.node.quirks.has(quirk)
    }
}

fn masqueraded(pool: PoolScope) -> Verdict {
    Verdict::Forward { pool, masquerade: true }
}
