//! Turns a Service's traffic policies into the shape of its frontends.
//!
//! Decides *who may reach what*, never *which endpoint*: pools are made in [`crate::pools`].
//! Knows no backend; differences between kube-proxy's modes arrive as [`Quirk`]s.

use ferrule_model::TrafficPolicy;

use crate::pools::Availability;
use crate::{Masquerade, NodeTraffic, Outsiders, PolicyField, PoolScope, Quirk, Refusal, Shape, ShapeReason};

/// What the frontends of one Service port depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PolicyInput<'a> {
    pub node: &'a NodeTraffic,
    pub available: Availability,
    pub internal: TrafficPolicy,
    pub external: TrafficPolicy,
}

/// A shape and why it is that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decision {
    pub shape: Shape,
    pub why: ShapeReason,
}

impl PolicyInput<'_> {
    /// The shape of the cluster IP.
    pub(crate) fn internal(&self) -> Decision {
        let to = |pool| Decision {
            shape: Shape::OnePool { pool, masquerade: Masquerade::AsClusterIps },
            why: ShapeReason::Policy(PolicyField::Internal, self.internal),
        };
        match self.internal {
            _ if !self.available.any => no_usable_endpoint(),
            TrafficPolicy::Cluster => to(PoolScope::Cluster),
            TrafficPolicy::Local if self.available.local => to(PoolScope::Local),
            TrafficPolicy::Local => {
                self.without_local_endpoints(PolicyField::Internal, Masquerade::AsClusterIps)
            }
        }
    }

    /// The shape of external IPs, load-balancer addresses and NodePorts.
    pub(crate) fn external(&self) -> Decision {
        if !self.available.any {
            return no_usable_endpoint();
        }
        let decision = |shape, why| Decision { shape, why };
        let policy = ShapeReason::Policy(PolicyField::External, self.external);
        let one_pool = self.has(Quirk::OnePoolPerFrontend);
        match (self.external, self.available.local) {
            (TrafficPolicy::Cluster, _) => {
                let (pool, masquerade) = (PoolScope::Cluster, Masquerade::Always);
                decision(Shape::OnePool { pool, masquerade }, policy)
            }
            (TrafficPolicy::Local, true) if one_pool => {
                let (pool, masquerade) = (PoolScope::Local, Masquerade::Never);
                decision(Shape::OnePool { pool, masquerade }, ShapeReason::OnePool)
            }
            (TrafficPolicy::Local, false) if one_pool => {
                self.without_local_endpoints(PolicyField::External, Masquerade::Never)
            }
            // Pods and the host reach external addresses as if they had left the cluster and come back, so the policy,
            // which is about outsiders' source addresses, does not hold for them.
            (TrafficPolicy::Local, true) => {
                decision(Shape::ShortCircuit { outsiders: Outsiders::LocalPool }, policy)
            }
            (TrafficPolicy::Local, false) => {
                let why = ShapeReason::NoLocalEndpoint(PolicyField::External);
                decision(Shape::ShortCircuit { outsiders: Outsiders::Dropped }, why)
            }
        }
    }

    /// Whether a load balancer's source ranges are enforced.
    pub(crate) fn enforces_ranges(&self) -> bool {
        self.available.any || !self.has(Quirk::RangesIgnoredWithoutEndpoints)
    }

    /// Policy `Local` where this node has no endpoint but others do.
    fn without_local_endpoints(&self, field: PolicyField, masquerade: Masquerade) -> Decision {
        let (shape, why) = if !self.has(Quirk::LocalFallsBackToCluster) {
            (Shape::Refuse(Refusal::Drop), ShapeReason::NoLocalEndpoint(field))
        } else if self.available.cluster {
            let pool = PoolScope::Cluster;
            (Shape::OnePool { pool, masquerade }, ShapeReason::FellBackToCluster(field))
        } else {
            // A virtual server without real servers answers "port unreachable".
            (Shape::Refuse(Refusal::Reject), ShapeReason::NoPoolToFallBackTo(field))
        };
        Decision { shape, why }
    }

    fn has(&self, quirk: Quirk) -> bool {
        self.node.quirks.has(quirk)
    }
}

fn no_usable_endpoint() -> Decision {
    Decision { shape: Shape::Refuse(Refusal::Reject), why: ShapeReason::NoUsableEndpoint }
}
