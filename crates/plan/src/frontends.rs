//! A Service port → the addresses and node ports it answers on, with the rules of each.
//!
//! Claims only: whether another Service has an address already is settled in [`crate::conflicts`].

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use ferrule_model::{NodeIps, NodePortAddresses, Protocol, Service, ServicePort, ServicePortName};
use ipnet::IpNet;

use crate::ir::{Claim, PoolUse};
use crate::policy::{PolicyInput, Reach};
use crate::pools::Facts;
use crate::{
    ExternalIps, Frontend, FrontendKey, FrontendKind, LoopbackNodePorts, NodeTraffic, PoolScope, Quirk,
    Rules, Verdict,
};

/// What frontends depend on beyond the Service: this node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site<'a> {
    pub node: &'a NodeTraffic,
    pub ips: NodeIps,
    pub node_ports: &'a NodePortAddresses,
    pub external_ips: &'a ExternalIps,
}

/// One Service port about to get its frontends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortInput<'a> {
    pub owner: &'a ServicePortName,
    pub service: &'a Service,
    pub port: &'a ServicePort,
    pub facts: Facts,
}

/// All frontends a Service port claims that are not taken yet, each key once.
pub(crate) fn claims(input: PortInput<'_>, site: Site<'_>, taken: &mut HashSet<FrontendKey>) -> Vec<Claim> {
    let policy = policy_input(input, site);
    let mut claims = Claims { input, site, policy, taken, list: Vec::with_capacity(4) };
    claims.cluster_ip();
    claims.load_balancer_vips();
    claims.external_ips();
    claims.node_port();
    claims.loopback_node_port();
    claims.list
}

fn policy_input<'a>(input: PortInput<'a>, site: Site<'a>) -> PolicyInput<'a> {
    PolicyInput {
        node: site.node,
        facts: input.facts,
        internal: input.service.internal_policy,
        external: input.service.external_policy,
    }
}

struct Claims<'a> {
    input: PortInput<'a>,
    site: Site<'a>,
    policy: PolicyInput<'a>,
    taken: &'a mut HashSet<FrontendKey>,
    list: Vec<Claim>,
}

impl Claims<'_> {
    fn cluster_ip(&mut self) {
        let Some(ip) = self.input.service.cluster_ips.get(self.site.node.family).copied() else { return };
        let frontend = self.frontend(FrontendKind::ClusterIp, self.policy.internal_rules());
        self.claim(self.address(ip), &frontend);
        if self.has(Quirk::RejectUnusedClusterIpPorts) {
            self.refuse_other_ports(FrontendKind::ClusterIp, ip);
        }
    }

    /// Before external IPs: an address that is both is subject to the source ranges.
    fn load_balancer_vips(&mut self) {
        let vips: Vec<IpAddr> = self.input.service.load_balancer_vips(self.site.node.family).collect();
        let ranges = allowed_ranges(self.input.service, &vips, self.site);
        self.external_addresses(FrontendKind::LoadBalancer, &vips, ranges.as_ref());
    }

    fn external_ips(&mut self) {
        let ips = self.input.service.external_ips(self.site.node.family);
        let ips: Vec<IpAddr> = ips.filter(|ip| self.site.external_ips.allow(*ip)).collect();
        self.external_addresses(FrontendKind::ExternalIp, &ips, None);
    }

    fn external_addresses(&mut self, kind: FrontendKind, ips: &[IpAddr], ranges: Option<&Arc<[IpNet]>>) {
        // The node's own addresses serve as external ones in small clusters: there the host meets its own rules, and
        // its other ports are not ours to refuse.
        let host = &self.site.node.host_addresses;
        let (ours, foreign): (Vec<IpAddr>, Vec<IpAddr>) = ips.iter().partition(|ip| host.contains(*ip));
        for (reach, ips) in [(Reach::ThisNode, ours), (Reach::Elsewhere, foreign)] {
            if ips.is_empty() {
                continue;
            }
            let frontend = self.frontend(kind, self.policy.external_rules_within(ranges, reach));
            for ip in ips {
                self.claim(self.address(ip), &frontend);
                if reach == Reach::Elsewhere && self.has(Quirk::RejectUnusedPortsEverywhere) {
                    self.refuse_other_ports(kind, ip);
                }
            }
        }
    }

    fn node_port(&mut self) {
        let Some(number) = self.input.port.node_port else { return };
        let rules = self.policy.external_rules(Reach::ThisNode);
        let frontend = self.frontend(FrontendKind::NodePort, rules);
        self.claim(FrontendKey::NodePort(self.protocol(), number), &frontend);
    }

    fn loopback_node_port(&mut self) {
        let Some(number) = self.input.port.node_port else { return };
        if let Some(rules) = self.loopback_rules() {
            let frontend = self.frontend(FrontendKind::NodePort, rules);
            self.claim(FrontendKey::LoopbackNodePort(self.protocol(), number), &frontend);
        }
    }

    fn loopback_rules(&self) -> Option<Rules> {
        let node_ports = self.site.node_ports;
        match self.site.node.loopback_node_ports {
            LoopbackNodePorts::NotServed => None,
            LoopbackNodePorts::InKernel => {
                node_ports.contains_ipv4_loopback().then(|| self.policy.external_rules(Reach::ThisNode))
            }
            LoopbackNodePorts::ForwardedOrRejected => {
                let forwarded = node_ports.contains_explicit_loopback() && self.protocol() == Protocol::Tcp;
                if forwarded { self.forwarded_rules() } else { Some(Rules::anyone(Verdict::Reject)) }
            }
        }
    }

    /// The forwarding process has one pool and no short-circuit, and does not listen without endpoints.
    fn forwarded_rules(&self) -> Option<Rules> {
        use ferrule_model::TrafficPolicy;
        let pool = match self.input.service.external_policy {
            TrafficPolicy::Cluster => PoolScope::Cluster,
            TrafficPolicy::Local => PoolScope::Local,
        };
        let exists = match pool {
            PoolScope::Cluster => self.input.facts.cluster,
            PoolScope::Local => self.input.facts.local,
        };
        exists.then(|| Rules::anyone(Verdict::Forward { pool, masquerade: true }))
    }

    fn refuse_other_ports(&mut self, kind: FrontendKind, ip: IpAddr) {
        let refusal = self.frontend(kind, Rules::anyone(Verdict::Reject));
        self.claim(FrontendKey::OtherPorts(ip), &refusal);
    }

    fn frontend(&self, kind: FrontendKind, rules: Rules) -> Arc<Frontend> {
        Arc::new(Frontend { owner: self.input.owner.clone(), kind, rules })
    }

    /// The first claim to a key counts: one address may be external IP and load-balancer address of one Service.
    fn claim(&mut self, key: FrontendKey, frontend: &Arc<Frontend>) {
        if self.taken.insert(key) {
            let uses = PoolUse::of(&frontend.rules);
            self.list.push(Claim { key, uses, frontend: Arc::clone(frontend) });
        }
    }

    fn address(&self, ip: IpAddr) -> FrontendKey {
        FrontendKey::Address(ip, self.protocol(), self.input.port.number)
    }

    fn protocol(&self) -> Protocol {
        self.input.port.protocol
    }

    fn has(&self, quirk: Quirk) -> bool {
        self.site.node.quirks.has(quirk)
    }
}

/// The blocks whose sources may use the load balancer, if there is a restriction at all.
///
/// If this node itself may, so may its own load-balancer addresses: the host's packets to them can carry them as source.
fn allowed_ranges(service: &Service, vips: &[IpAddr], site: Site<'_>) -> Option<Arc<[IpNet]>> {
    let family = site.node.family;
    if vips.is_empty() {
        return None;
    }
    let mut ranges = service.source_ranges.of_family(family)?;
    let node = site.ips.get(family);
    if ranges.iter().any(|range| range.contains(&node)) {
        ranges.extend(vips.iter().map(|vip| IpNet::from(*vip)));
    }
    Some(ranges.into())
}
