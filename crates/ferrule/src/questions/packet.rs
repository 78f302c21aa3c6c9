//! The packet that a question is about: who sends it, and what the proxy can know about that.

use std::net::IpAddr;

use ferrule_model::{IpFamily, NodeIps};
use ferrule_plan::{Explainer, LocalPods, NodeTraffic, Packet, outside_client};

use super::{QuestionError, Target};

/// What becomes of a packet?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainQuestion {
    /// Who sends it.
    pub origin: Origin,
    /// Where to.
    pub to: Target,
    /// The interface it comes in on, if that is known. Empty: on one that no setting names.
    pub interface: Option<String>,
}

/// Who sends a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This address, whatever it is.
    Address(IpAddr),
    /// A pod of this node.
    Pod(IpAddr),
    /// The node itself.
    Node,
    /// A client outside of the cluster.
    Outside(Option<IpAddr>),
}

/// The packet, and what had to be assumed about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assumed {
    pub packet: Packet,
    pub assumptions: Vec<String>,
}

impl ExplainQuestion {
    pub(super) fn packet(&self, explainer: &Explainer<'_>) -> Result<Assumed, QuestionError> {
        let family = self.origin.address().map(IpFamily::of);
        let (to, port) = self.to.resolve(explainer, family)?;
        if family.is_some_and(|family| family != IpFamily::of(to)) {
            return Err(QuestionError::new("source and destination are of different IP families"));
        }
        let mut assumptions = Vec::new();
        let from = match self.origin {
            Origin::Address(ip) | Origin::Pod(ip) | Origin::Outside(Some(ip)) => ip,
            Origin::Outside(None) => {
                let from = outside_client(IpFamily::of(to));
                assumptions.push(format!("the client outside is taken to be {from}"));
                from
            }
            Origin::Node => node_address(explainer, to),
        };
        let interface = match &self.interface {
            Some(name) => Some(name.clone()).filter(|name| !name.is_empty()),
            None => self.assumed_interface(explainer, from, &mut assumptions),
        };
        Ok(Assumed { packet: Packet { from, interface, to, port }, assumptions })
    }

    /// Where pods are recognized by their interface, that of a pod.
    fn assumed_interface(
        &self,
        explainer: &Explainer<'_>,
        from: IpAddr,
        assumptions: &mut Vec<String>,
    ) -> Option<String> {
        let node = node_traffic(explainer, from)?;
        let is_pod = match self.origin {
            Origin::Pod(_) => true,
            Origin::Address(_) => {
                let blocks = explainer.cluster.node().map_or(&[][..], |node| &node.pod_cidrs);
                blocks.iter().any(|block| block.contains(&from)) && !node.host_addresses.contains(&from)
            }
            Origin::Node | Origin::Outside(_) => false,
        };
        let interface = match node.local_pods.as_ref().filter(|_| is_pod)? {
            LocalPods::From(block) => {
                if !block.contains(&from) {
                    assumptions.push(format!(
                        "{from} is not in {block}, so it does not count as a pod of this node"
                    ));
                }
                return None;
            }
            LocalPods::ByInterface(name) => name.clone(),
            LocalPods::ByInterfacePrefix(prefix) => format!("{prefix}0"),
        };
        assumptions.push(format!("{from} is taken for a pod of this node, behind interface {interface}"));
        Some(interface)
    }
}

impl Origin {
    fn address(self) -> Option<IpAddr> {
        match self {
            Self::Address(ip) | Self::Pod(ip) | Self::Outside(Some(ip)) => Some(ip),
            Self::Node | Self::Outside(None) => None,
        }
    }
}

fn node_traffic<'a>(explainer: &Explainer<'a>, of: IpAddr) -> Option<&'a NodeTraffic> {
    explainer.plan.families.get(IpFamily::of(of)).map(|plan| &plan.node)
}

/// The address the host itself would send from.
fn node_address(explainer: &Explainer<'_>, to: IpAddr) -> IpAddr {
    if to.is_loopback() {
        return IpFamily::of(to).loopback();
    }
    let host_ips = explainer.cluster.node().map_or(&[][..], |node| &node.host_ips);
    let is_usable = |ip: &IpAddr| IpFamily::of(*ip) == IpFamily::of(to) && !ip.is_loopback();
    let ips = NodeIps::resolve(host_ips, explainer.view.bind_address);
    let own = ips.known(IpFamily::of(to)).filter(is_usable);
    let any = || node_traffic(explainer, to)?.host_addresses.iter().copied().find(is_usable);
    own.or_else(any).unwrap_or_else(|| IpFamily::of(to).loopback())
}
