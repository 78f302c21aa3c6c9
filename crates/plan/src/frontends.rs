//! A Service port → the addresses and node ports it answers on, with the shape of each.
//!
//! Claims only: conflicts with other Services are resolved in [`crate::conflicts`].

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use ferrule_model::{NodeIps, NodePortAddresses, Protocol, Service, ServicePort, ServicePortName};
use ipnet::IpNet;

use crate::ir::{Claim, PoolUse};
use crate::policy::{Decision, PolicyInput};
use crate::pools::Availability;
use crate::reasons::Reasons;
use crate::topology::NodeLocation;
use crate::{
    ExternalIps, Frontend, FrontendKey, FrontendKind, LoopbackNodePorts, Masquerade, NodePortScope,
    NodeTraffic, PoolScope, Quirk, Refusal, Shape, ShapeReason, UnclaimedFrontend,
};

/// What planning a Service depends on beyond the Service: this node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeContext<'a> {
    pub node: &'a NodeTraffic,
    pub location: NodeLocation<'a>,
    pub ips: NodeIps,
    pub node_ports: &'a NodePortAddresses,
    pub external_ips: &'a ExternalIps,
}

/// One Service port about to get its frontends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClaimInput<'a> {
    pub owner: &'a ServicePortName,
    pub service: &'a Service,
    pub port: &'a ServicePort,
    pub available: Availability,
}

/// All frontends a Service port claims that are not taken yet, each key once.
pub(crate) fn claims(
    input: ClaimInput<'_>,
    context: NodeContext<'_>,
    taken: &mut HashSet<FrontendKey>,
    reasons: &mut impl Reasons,
) -> Vec<Claim> {
    let policy = PolicyInput {
        node: context.node,
        available: input.available,
        internal: input.service.internal_policy,
        external: input.service.external_policy,
    };
    let mut claims = Claims { input, context, policy, taken, reasons, list: Vec::with_capacity(4) };
    claims.cluster_ip();
    claims.load_balancer_vips();
    claims.external_ips();
    claims.node_port();
    claims.loopback_node_port();
    claims.list
}

struct Claims<'a, R> {
    input: ClaimInput<'a>,
    context: NodeContext<'a>,
    policy: PolicyInput<'a>,
    taken: &'a mut HashSet<FrontendKey>,
    reasons: &'a mut R,
    list: Vec<Claim>,
}

/// A frontend about to be claimed, under one key or several.
struct Candidate {
    frontend: Arc<Frontend>,
    why: ShapeReason,
}

impl<R: Reasons> Claims<'_, R> {
    fn cluster_ip(&mut self) {
        let Some(ip) = self.input.service.cluster_ips.get(self.context.node.family).copied() else { return };
        let candidate = self.candidate(FrontendKind::ClusterIp, self.policy.internal());
        self.claim(self.address(ip), &candidate);
        let quirk = Quirk::RejectUnusedClusterIpPorts;
        if self.context.node.quirks.has(quirk) {
            self.refuse_other_ports(FrontendKind::ClusterIp, ip, quirk);
        }
    }

    /// Before external IPs: an address that is both is subject to the source ranges.
    fn load_balancer_vips(&mut self) {
        let vips: Vec<IpAddr> = self.input.service.load_balancer_vips(self.context.node.family).collect();
        let mut kind = load_balancer(self.input.service, &vips, self.context);
        if is_restricted(&kind) && !self.policy.enforces_ranges() {
            kind = unrestricted(&kind);
            self.reasons.source_ranges_ignored();
        }
        self.external_addresses(&kind, &vips);
    }

    fn external_ips(&mut self) {
        let ips = self.input.service.external_ips(self.context.node.family);
        let allowed = self.context.external_ips;
        let (ips, refused): (Vec<IpAddr>, Vec<IpAddr>) = ips.partition(|ip| allowed.allow(*ip));
        for ip in refused {
            self.reasons.not_claimed(UnclaimedFrontend::ExternalIpRefused(ip));
        }
        self.external_addresses(&FrontendKind::ExternalIp, &ips);
    }

    fn external_addresses(&mut self, kind: &FrontendKind, ips: &[IpAddr]) {
        if ips.is_empty() {
            return;
        }
        let candidate = self.candidate(kind.clone(), self.policy.external());
        let host = &self.context.node.host_addresses;
        let (ours, foreign): (Vec<IpAddr>, Vec<IpAddr>) = ips.iter().partition(|ip| host.contains(*ip));
        for ip in ours {
            self.claim(self.address(ip), &candidate);
        }
        for ip in foreign {
            self.claim(self.address(ip), &candidate);
            // Only here: in small clusters the node's own addresses serve as external ones, and their other ports are not
            // ours to refuse.
            let quirk = Quirk::RejectUnusedPortsEverywhere;
            if self.context.node.quirks.has(quirk) {
                self.refuse_other_ports(unrestricted(kind), ip, quirk);
            }
        }
    }

    fn node_port(&mut self) {
        let Some(number) = self.input.port.node_port else { return };
        let candidate = self.candidate(FrontendKind::NodePort, self.policy.external());
        self.claim(FrontendKey::NodePort(self.protocol(), number), &candidate);
    }

    fn loopback_node_port(&mut self) {
        let Some(number) = self.input.port.node_port else { return };
        let key = FrontendKey::LoopbackNodePort(self.protocol(), number);
        let node_ports = self.context.node_ports;
        let decision = match self.context.node.loopback_node_ports {
            LoopbackNodePorts::NotServed => None,
            LoopbackNodePorts::InKernel => {
                node_ports.contains_ipv4_loopback().then(|| self.policy.external())
            }
            LoopbackNodePorts::Relayed => {
                let nowhere = NodePortScope::Only(BTreeSet::new());
                (self.context.node.loopback_addresses != nowhere).then(|| self.policy.external())
            }
            LoopbackNodePorts::ForwardedOrRejected
                if node_ports.contains_explicit_loopback() && self.protocol() != Protocol::Sctp =>
            {
                self.forwarded_by_process(key)
            }
            LoopbackNodePorts::ForwardedOrRejected => {
                let why = ShapeReason::LoopbackRefused;
                Some(Decision { shape: Shape::Refuse(Refusal::Reject), why })
            }
        };
        if let Some(decision) = decision {
            let candidate = self.candidate(FrontendKind::NodePort, decision);
            self.claim(key, &candidate);
        }
    }

    /// The forwarding process has one pool and no short-circuit, and does not listen without endpoints.
    fn forwarded_by_process(&mut self, key: FrontendKey) -> Option<Decision> {
        use ferrule_model::TrafficPolicy;
        let available = self.input.available;
        let (pool, exists) = match self.input.service.external_policy {
            TrafficPolicy::Cluster => (PoolScope::Cluster, available.cluster),
            TrafficPolicy::Local => (PoolScope::Local, available.local),
        };
        if !exists {
            self.reasons.not_claimed(UnclaimedFrontend::NothingToForward(key));
            return None;
        }
        let shape = Shape::OnePool { pool, masquerade: Masquerade::Always };
        Some(Decision { shape, why: ShapeReason::LoopbackForwarded })
    }

    fn refuse_other_ports(&mut self, kind: FrontendKind, ip: IpAddr, quirk: Quirk) {
        let why = ShapeReason::UnusedPort(quirk);
        let refusal = self.candidate(kind, Decision { shape: Shape::Refuse(Refusal::Reject), why });
        self.claim(FrontendKey::UnmatchedPorts(ip), &refusal);
    }

    fn candidate(&self, kind: FrontendKind, decision: Decision) -> Candidate {
        let Decision { shape, why } = decision;
        let frontend = Arc::new(Frontend { owner: self.input.owner.clone(), kind, shape });
        Candidate { frontend, why }
    }

    /// The first claim to a key counts: one address may be external IP and load-balancer address of one Service.
    fn claim(&mut self, key: FrontendKey, candidate: &Candidate) {
        if self.taken.insert(key) {
            let Candidate { frontend, why } = candidate;
            let uses = PoolUse::of(frontend.shape);
            let claim = Claim { key, uses, frontend: Arc::clone(frontend) };
            self.reasons.claimed(&claim, *why);
            self.list.push(claim);
        } else {
            self.reasons.not_claimed(UnclaimedFrontend::AlreadyClaimed(key));
        }
    }

    fn address(&self, ip: IpAddr) -> FrontendKey {
        FrontendKey::Address(ip, self.protocol(), self.input.port.number)
    }

    fn protocol(&self) -> Protocol {
        self.input.port.protocol
    }
}

/// The kind without source ranges, which are about the ports that are served.
fn unrestricted(kind: &FrontendKind) -> FrontendKind {
    match kind {
        FrontendKind::LoadBalancer { .. } => OPEN_LOAD_BALANCER,
        FrontendKind::ClusterIp | FrontendKind::ExternalIp | FrontendKind::NodePort => kind.clone(),
    }
}

/// A load balancer that everyone may use.
const OPEN_LOAD_BALANCER: FrontendKind = FrontendKind::LoadBalancer { source_ranges: None, own_ranges: 0 };

fn is_restricted(kind: &FrontendKind) -> bool {
    matches!(kind, FrontendKind::LoadBalancer { source_ranges: Some(_), .. })
}

/// The load balancer with the blocks whose sources may use it, if there is a restriction at all.
///
/// If this node itself may, so may its own load-balancer addresses: the host's packets to them can carry them as source.
fn load_balancer(service: &Service, vips: &[IpAddr], context: NodeContext<'_>) -> FrontendKind {
    let family = context.node.family;
    let restricted = service.source_ranges.of_family(family).filter(|_| !vips.is_empty());
    let Some(mut ranges) = restricted else { return OPEN_LOAD_BALANCER };
    let node = context.ips.get(family);
    let admits_node = ranges.iter().any(|range| range.contains(&node));
    let own_ranges = if admits_node { vips.len() } else { 0 };
    ranges.extend(vips.iter().take(own_ranges).map(|vip| IpNet::from(*vip)));
    FrontendKind::LoadBalancer { source_ranges: Some(ranges.into()), own_ranges }
}
