//! Reasons in plain English, as parts of a sentence without a full stop.

use std::fmt;

use ferrule_model::{ServiceName, Timestamp, TrafficPolicy};

use super::{
    Excluded, HintDecision, HintUse, HintsIgnored, Holder, Included, Membership, PolicyField, Precedence,
    ShapeReason, UnclaimedFrontend,
};

impl fmt::Display for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::In(why) => write!(f, "used: {why}"),
            Self::Out(why) => write!(f, "not used: {why}"),
        }
    }
}

impl fmt::Display for Included {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ready => "ready",
            Self::LastResort => "terminating but still serving, and no endpoint is ready",
        })
    }
}

impl fmt::Display for Excluded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotReady => "not ready",
            Self::Terminating => "terminating, and other endpoints are ready",
            Self::HintedForOtherNodes => "hinted for other nodes",
            Self::HintedForOtherZones => "hinted for other zones",
            Self::OnOtherNode => "on another node",
            Self::PoolNotNeeded => "the traffic policies leave no traffic for this pool",
            Self::PoolUnused => "no frontend forwards to this pool",
            Self::Duplicate => "another entry with this address and port counts",
            Self::NoSuchPort => "its EndpointSlice has no such port",
            Self::FamilyNotServed => "the Service is not served in this IP family",
        })
    }
}

impl fmt::Display for HintDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.node, self.zone) {
            (HintUse::Followed, _) => f.write_str("node hints are followed"),
            (_, HintUse::Followed) => f.write_str("zone hints are followed"),
            (node, zone) if node == zone => write!(f, "hints are {node}"),
            (node, zone) => write!(f, "node hints are {node}; zone hints are {zone}"),
        }
    }
}

impl fmt::Display for HintUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Followed => f.write_str("followed"),
            Self::NotAsked => f.write_str("not needed"),
            Self::Ignored(why) => write!(f, "ignored: {why}"),
        }
    }
}

impl fmt::Display for HintsIgnored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoReadyEndpoint => f.write_str("no endpoint is ready"),
            Self::MissingOn(endpoint) => write!(f, "{endpoint} is ready and has none"),
            Self::NodeWithoutZone => f.write_str("this node has no zone"),
            Self::NoneForThisNode => f.write_str("no ready endpoint is hinted for here"),
        }
    }
}

impl fmt::Display for ShapeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoUsableEndpoint => {
                f.write_str("no endpoint is ready, and none is serving while it terminates")
            }
            Self::Policy(field, TrafficPolicy::Cluster) => write!(f, "{field} is Cluster"),
            Self::Policy(field, TrafficPolicy::Local) => {
                write!(f, "{field} is Local, and this node has endpoints")
            }
            Self::NoLocalEndpoint(field) => write!(f, "{field} is Local, and this node has no endpoint"),
            Self::FellBackToCluster(field) => {
                write!(f, "{field} is Local, this node has no endpoint, and this mode then uses all endpoints")
            }
            Self::NoPoolToFallBackTo(field) => {
                write!(f, "{field} is Local, this node has no endpoint, and no other traffic uses all endpoints")
            }
            Self::OnePool => {
                let field = PolicyField::External;
                write!(f, "{field} is Local, and in this mode it holds for pods and this host too")
            }
            Self::UnusedPort(_) => f.write_str("in this mode, ports that no Service uses are refused"),
            Self::LoopbackForwarded => f.write_str("a process forwards NodePorts on loopback addresses"),
            Self::LoopbackRefused => f.write_str(
                "NodePorts on loopback addresses are refused, except TCP ones if nodePortAddresses lists loopback",
            ),
        }
    }
}

impl fmt::Display for PolicyField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Internal => "internalTrafficPolicy",
            Self::External => "externalTrafficPolicy",
        })
    }
}

impl fmt::Display for UnclaimedFrontend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ExternalIpRefused(ip) => write!(f, "{ip}: the operator does not allow this external IP"),
            Self::AlreadyClaimed(key) => write!(f, "{key}: another field or port of this Service has it"),
            Self::NothingToForward(key) => write!(f, "{key}: the policy leaves no endpoint to forward to"),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OnlyClaimant => f.write_str("no other Service claims it"),
            Self::Won { over } => {
                let losers: Vec<&str> = over.iter().map(ServiceName::as_str).collect();
                write!(f, "also claimed by {}, which come after this Service", losers.join(", "))
            }
            Self::Lost { to, by } => write!(f, "not served: Service {to} has it, {by}"),
        }
    }
}

impl fmt::Display for Precedence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClusterIpFirst => {
                f.write_str("because a cluster IP goes before an address that a user specified")
            }
            Self::OlderFirst { loser: Timestamp::UNKNOWN, .. } => {
                f.write_str("because the age of this one is unknown")
            }
            Self::OlderFirst { .. } => f.write_str("because it is older"),
            Self::NameOrder => f.write_str("because both are of the same age and its name sorts first"),
        }
    }
}
