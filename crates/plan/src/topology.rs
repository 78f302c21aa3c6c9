//! Zone and node hints: which ready endpoints the control plane wants this node to use.
//!
//! A decision about the whole Service port on this node, never about one endpoint: one ready endpoint without a hint,
//! or none hinted for us, and the hints of that kind count for nothing.

use ferrule_model::{Hints, NodeName, PortEndpoint, Zone};

/// Where this node is, for comparing with hints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
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

impl Topology {
    /// Decides over the ready endpoints.
    pub(crate) fn of(endpoints: &[PortEndpoint<'_>], place: Place<'_>) -> Self {
        [Self::SameNode, Self::SameZone]
            .into_iter()
            .find(|topology| topology.can_be_followed(endpoints, place))
            .unwrap_or(Self::Anywhere)
    }

    /// Whether an endpoint is meant for this node.
    pub(crate) fn admits(self, endpoint: &PortEndpoint<'_>, place: Place<'_>) -> bool {
        match self {
            Self::SameNode => hinted_for_node(endpoint.hints, place),
            Self::SameZone => hinted_for_zone(endpoint.hints, place),
            Self::Anywhere => true,
        }
    }

    fn can_be_followed(self, endpoints: &[PortEndpoint<'_>], place: Place<'_>) -> bool {
        let mut one_for_us = false;
        for endpoint in endpoints.iter().filter(|endpoint| endpoint.conditions.ready) {
            if !self.is_hinted_at(endpoint.hints) {
                return false;
            }
            one_for_us |= self.admits(endpoint, place);
        }
        one_for_us
    }

    fn is_hinted_at(self, hints: Option<&Hints>) -> bool {
        match (self, hints) {
            (Self::Anywhere, _) => true,
            (_, None) => false,
            (Self::SameNode, Some(hints)) => !hints.nodes.is_empty(),
            (Self::SameZone, Some(hints)) => !hints.zones.is_empty(),
        }
    }
}

fn hinted_for_node(hints: Option<&Hints>, place: Place<'_>) -> bool {
    hints.is_some_and(|hints| hints.nodes.contains(place.node))
}

/// A node without a zone, or with an empty one, follows no zone hint.
fn hinted_for_zone(hints: Option<&Hints>, place: Place<'_>) -> bool {
    let zone = place.zone.filter(|zone| !zone.as_str().is_empty());
    hints.zip(zone).is_some_and(|(hints, zone)| hints.zones.contains(zone))
}
