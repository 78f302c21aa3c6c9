//! Zone and node hints: which ready endpoints the control plane wants this node to use.
//!
//! A decision about the whole Service port on this node, never about one endpoint: one ready endpoint without a hint,
//! or none hinted for us, and the hints of that kind count for nothing.

use std::net::SocketAddr;

use ferrule_model::{Hints, NodeName, PortEndpoint, Zone};

use crate::{Excluded, HintDecision, HintUse, HintsIgnored};

/// Where this node is, for comparing with hints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeLocation<'a> {
    pub node: &'a NodeName,
    pub zone: Option<&'a Zone>,
}

/// The kind of hints that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    SameNode,
    SameZone,
    Anywhere,
}

impl HintDecision {
    /// Decides over the ready endpoints.
    pub(crate) fn new(endpoints: &[PortEndpoint<'_>], location: NodeLocation<'_>) -> Self {
        let node = hint_use(Topology::SameNode, endpoints, location);
        let zone = match node {
            HintUse::Followed => HintUse::NotAsked,
            HintUse::NotAsked | HintUse::Ignored(_) => hint_use(Topology::SameZone, endpoints, location),
        };
        Self { node, zone }
    }

    pub(crate) fn topology(self) -> Topology {
        match (self.node, self.zone) {
            (HintUse::Followed, _) => Topology::SameNode,
            (HintUse::NotAsked | HintUse::Ignored(_), HintUse::Followed) => Topology::SameZone,
            (HintUse::NotAsked | HintUse::Ignored(_), HintUse::NotAsked | HintUse::Ignored(_)) => {
                Topology::Anywhere
            }
        }
    }
}

impl Topology {
    /// Why an endpoint is not meant for this node, unless it is.
    pub(crate) fn excludes(
        self,
        endpoint: &PortEndpoint<'_>,
        location: NodeLocation<'_>,
    ) -> Option<Excluded> {
        match self {
            Self::SameNode => {
                (!hinted_for_node(endpoint.hints, location)).then_some(Excluded::HintedForOtherNodes)
            }
            Self::SameZone => {
                (!hinted_for_zone(endpoint.hints, location)).then_some(Excluded::HintedForOtherZones)
            }
            Self::Anywhere => None,
        }
    }

    fn is_hinted_at(self, hints: Option<&Hints>) -> bool {
        match (self, hints) {
            (Self::Anywhere, _) => true,
            (Self::SameNode | Self::SameZone, None) => false,
            (Self::SameNode, Some(hints)) => !hints.nodes.is_empty(),
            (Self::SameZone, Some(hints)) => !hints.zones.is_empty(),
        }
    }
}

/// Hints of one kind are followed if every ready endpoint has one, and one of them names us.
fn hint_use(kind: Topology, endpoints: &[PortEndpoint<'_>], location: NodeLocation<'_>) -> HintUse {
    let mut ready = endpoints.iter().filter(|endpoint| endpoint.conditions.ready).peekable();
    if ready.peek().is_none() {
        return HintUse::Ignored(HintsIgnored::NoReadyEndpoint);
    }
    let mut one_for_us = false;
    for endpoint in ready {
        if !kind.is_hinted_at(endpoint.hints) {
            let address = SocketAddr::new(endpoint.ip, endpoint.port);
            return HintUse::Ignored(HintsIgnored::MissingOn(address));
        }
        one_for_us |= kind.excludes(endpoint, location).is_none();
    }
    if one_for_us {
        HintUse::Followed
    } else if kind == Topology::SameZone && zone_of(location).is_none() {
        HintUse::Ignored(HintsIgnored::NodeWithoutZone)
    } else {
        HintUse::Ignored(HintsIgnored::NoneForThisNode)
    }
}

fn hinted_for_node(hints: Option<&Hints>, location: NodeLocation<'_>) -> bool {
    hints.is_some_and(|hints| hints.nodes.contains(location.node))
}

fn hinted_for_zone(hints: Option<&Hints>, location: NodeLocation<'_>) -> bool {
    hints.zip(zone_of(location)).is_some_and(|(hints, zone)| hints.zones.contains(zone))
}

/// A node without a zone, or with an empty one, follows no zone hint.
fn zone_of(location: NodeLocation<'_>) -> Option<&Zone> {
    location.zone.filter(|zone| !zone.as_str().is_empty())
}
