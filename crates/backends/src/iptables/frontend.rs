//! A Service port → its rules in the chains that all share, and chains of its own.

use std::collections::BTreeMap;

use ferrule_model::ServicePortName;
use ferrule_plan::{
    FamilyPlan, Frontend, FrontendKey, FrontendKind, NodeTraffic, PlannedPort, PoolScope, Rules,
    TrafficSource, Verdict,
};
use ipnet::IpNet;

use super::base::{Dispatch, Host, serves_loopback};
use super::names::{MARK, PortNames};
use super::pool::{EndpointComments, SCOPES, endpoint, local_pods, spreading};

/// What one Service port adds to the tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PortRules {
    pub dispatch: Vec<(Dispatch, Box<str>)>,
    /// Chains of its own, all in table nat.
    pub chains: BTreeMap<Box<str>, Box<[Box<str>]>>,
}

/// Compiles Service ports of one plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compiler<'a> {
    pub plan: &'a FamilyPlan,
    pub host: Host,
    pub comments: EndpointComments,
}

impl Compiler<'_> {
    pub(super) fn port(&self, owner: &ServicePortName) -> Option<PortRules> {
        self.plan.port(owner).map(|port| self.rules_of(port))
    }

    pub(super) fn rules_of(&self, port: PlannedPort<'_>) -> PortRules {
        let (names, node) = (PortNames::of(port.owner()), &self.plan.node);
        let outline = Outline::of(&port);
        let mut compiling = Compiling { names, node, host: self.host, outline, rules: PortRules::default() };
        for found in port.frontends().filter(|found| found.is_held) {
            compiling.frontend(found.key, found.frontend);
        }
        if let Some(number) = port.health_check_port() {
            compiling.health_check(number);
        }
        compiling.chains(&port, self.comments);
        compiling.rules
    }
}

/// What a port's frontends have in common.
#[derive(Clone, Copy, Debug, Default)]
struct Outline<'a> {
    /// The cluster IP and the pool behind it.
    internal: Option<(FrontendKey, PoolScope)>,
    /// Who may use external addresses how, if anything is forwarded.
    external: Option<&'a Rules>,
    /// The source ranges of load-balancer addresses.
    ranges: Option<&'a [IpNet]>,
}

impl<'a> Outline<'a> {
    fn of(port: &PlannedPort<'a>) -> Self {
        let mut outline = Self::default();
        for found in port.frontends() {
            let rules = &found.frontend.rules;
            let Some(scope) = SCOPES.into_iter().find(|scope| rules.use_pool(*scope)) else { continue };
            match found.frontend.kind {
                FrontendKind::ClusterIp => outline.internal = outline.internal.or(Some((found.key, scope))),
                FrontendKind::LoadBalancer | FrontendKind::ExternalIp | FrontendKind::NodePort => {
                    outline.external = outline.external.or(Some(rules));
                    outline.ranges = outline.ranges.or_else(|| ranges(rules));
                }
            }
        }
        outline
    }
}

fn ranges(rules: &Rules) -> Option<&[IpNet]> {
    rules.iter().find_map(|(source, _)| match source {
        TrafficSource::OutsideRanges(ranges) => Some(&**ranges),
        TrafficSource::LocalPods | TrafficSource::ThisHost | TrafficSource::Anyone => None,
    })
}

/// One port being compiled.
struct Compiling<'a> {
    names: PortNames,
    node: &'a NodeTraffic,
    host: Host,
    outline: Outline<'a>,
    rules: PortRules,
}

impl Compiling<'_> {
    fn frontend(&mut self, key: FrontendKey, frontend: &Frontend) {
        let forwards = SCOPES.iter().any(|scope| frontend.rules.use_pool(*scope));
        let refusal = frontend.rules.otherwise();
        match (key, frontend.kind) {
            (FrontendKey::NodePort(_, number), _) => self.node_port(number, forwards, refusal),
            (FrontendKey::Address(..), FrontendKind::ClusterIp) => self.cluster_ip(key, refusal),
            (FrontendKey::Address(..), kind) => {
                if forwards {
                    self.external_address(key, kind, ranges(&frontend.rules).is_some());
                }
                self.refuse(Dispatch::ExternalRefusals, refusal, &self.to(key));
            }
            // Loopback addresses are served by the rules of node ports, other ports are left alone.
            (FrontendKey::LoopbackNodePort(..) | FrontendKey::OtherPorts(_), _) => {}
        }
    }

    fn cluster_ip(&mut self, key: FrontendKey, refusal: Verdict) {
        let matching = self.to(key);
        if let Some((_, scope)) = self.outline.internal {
            let (text, chain) = (&self.names.text, self.names.pool(scope));
            let rule = format!("-m comment --comment \"{text} cluster IP\" {matching} -j {chain}");
            self.add(Dispatch::Services, rule);
        }
        self.refuse(Dispatch::Refusals, refusal, &matching);
    }

    fn external_address(&mut self, key: FrontendKey, kind: FrontendKind, is_restricted: bool) {
        let (text, matching) = (&self.names.text, self.to(key));
        let (what, chain) = match kind {
            FrontendKind::LoadBalancer if is_restricted => ("loadbalancer IP", self.names.firewall()),
            FrontendKind::LoadBalancer => ("loadbalancer IP", self.names.external()),
            FrontendKind::ExternalIp | FrontendKind::ClusterIp | FrontendKind::NodePort => {
                ("external IP", self.names.external())
            }
        };
        let rule = format!("-m comment --comment \"{text} {what}\" {matching} -j {chain}");
        let comment = format!("{text} traffic not accepted by {}", self.names.firewall());
        self.add(Dispatch::Services, rule);
        if is_restricted {
            self.add(Dispatch::Firewall, format!("-m comment --comment \"{comment}\" {matching} -j DROP"));
        }
    }

    fn node_port(&mut self, number: u16, forwards: bool, refusal: Verdict) {
        let (text, protocol) = (&self.names.text, self.names.protocol);
        if forwards {
            let chain = self.names.external();
            let counted = format!(
                "-m comment --comment {text} -m {protocol} -p {protocol} -d 127.0.0.0/8 --dport {number} \
                 -m nfacct --nfacct-name localhost_nps_accepted_pkts -j {chain}"
            );
            let rule = format!(
                "-m comment --comment {text} -m {protocol} -p {protocol} --dport {number} -j {chain}"
            );
            if self.host.counts_loopback && serves_loopback(self.node) {
                self.add(Dispatch::NodePorts, counted);
            }
            self.add(Dispatch::NodePorts, rule);
        }
        let matching = format!("-m addrtype --dst-type LOCAL -m {protocol} -p {protocol} --dport {number}");
        self.refuse(Dispatch::ExternalRefusals, refusal, &matching);
    }

    fn refuse(&mut self, chain: Dispatch, verdict: Verdict, matching: &str) {
        let (why, target) = match verdict {
            Verdict::Reject => ("no endpoints", "REJECT"),
            Verdict::Drop => ("no local endpoints", "DROP"),
            Verdict::Forward { .. } | Verdict::LeaveAlone => return,
        };
        let text = &self.names.text;
        self.add(chain, format!("-m comment --comment \"{text} has {why}\" {matching} -j {target}"));
    }

    fn health_check(&mut self, number: u16) {
        let text = &self.names.text;
        let rule = format!(
            "-m comment --comment \"{text} health check node port\" -m tcp -p tcp --dport {number} -j ACCEPT"
        );
        self.add(Dispatch::HealthChecks, rule);
    }

    /// `-m tcp -p tcp -d 10.96.0.10 --dport 80`
    fn to(&self, key: FrontendKey) -> String {
        let protocol = self.names.protocol;
        match key {
            FrontendKey::Address(ip, _, port) => {
                format!("-m {protocol} -p {protocol} -d {ip} --dport {port}")
            }
            FrontendKey::OtherPorts(ip) => format!("-d {ip}"),
            FrontendKey::NodePort(_, port) | FrontendKey::LoopbackNodePort(_, port) => {
                format!("-m {protocol} -p {protocol} --dport {port}")
            }
        }
    }

    fn add(&mut self, chain: Dispatch, rule: String) {
        self.rules.dispatch.push((chain, rule.into_boxed_str()));
    }

    fn chains(&mut self, port: &PlannedPort<'_>, comments: EndpointComments) {
        for scope in SCOPES {
            let Some(pool) = port.pool(scope) else { continue };
            let mut rules = self.masquerading(scope);
            rules.extend(spreading(&self.names, pool, comments));
            self.chain(self.names.pool(scope), rules);
            for found in &pool.endpoints {
                let is_sticky = pool.affinity_seconds.is_some();
                let rules = endpoint(&self.names, found, (is_sticky, comments));
                self.chain(self.names.endpoint(found), rules);
            }
        }
        if let Some(rules) = self.outline.external {
            self.chain(self.names.external(), self.external(rules));
            if let Some(ranges) = self.outline.ranges {
                self.chain(self.names.firewall(), self.firewall(ranges));
            }
        }
    }

    fn chain(&mut self, name: String, rules: Vec<String>) {
        let rules = rules.into_iter().map(String::into_boxed_str).collect();
        self.rules.chains.insert(name.into_boxed_str(), rules);
    }

    /// Who reaches the cluster IP with an address that the endpoint cannot answer to directly.
    fn masquerading(&self, scope: PoolScope) -> Vec<String> {
        let Some((key, _)) = self.outline.internal.filter(|(_, internal)| *internal == scope) else {
            return Vec::new();
        };
        let whom = match local_pods(self.node) {
            _ if self.node.masquerade_all => String::new(),
            Some([_, others]) => format!(" {others}"),
            None => return Vec::new(),
        };
        let (text, matching) = (&self.names.text, self.to(key));
        vec![format!("-m comment --comment \"{text} cluster IP\" {matching}{whom} -j {MARK}")]
    }

    fn external(&self, rules: &Rules) -> Vec<String> {
        let text = &self.names.text;
        let about = |what: &str| format!("-m comment --comment \"{what} for {text} external destinations\"");
        let mut list = Vec::new();
        for (source, verdict) in rules.iter() {
            let Verdict::Forward { pool, masquerade } = verdict else { continue };
            let chain = self.names.pool(pool);
            match source {
                TrafficSource::LocalPods => {
                    let [pods, _] = local_pods(self.node).unwrap_or_default();
                    list.push(format!("{} {pods} -j {chain}", about("pod traffic")));
                }
                TrafficSource::ThisHost => {
                    let host = "-m addrtype --src-type LOCAL";
                    list.push(format!("{} {host} -j {MARK}", about("masquerade LOCAL traffic")));
                    list.push(format!("{} {host} -j {chain}", about("route LOCAL traffic")));
                }
                TrafficSource::Anyone => {
                    if masquerade {
                        list.push(format!("{} -j {MARK}", about("masquerade traffic")));
                    }
                    list.push(format!("-j {chain}"));
                }
                TrafficSource::OutsideRanges(_) => {}
            }
        }
        list
    }

    fn firewall(&self, ranges: &[IpNet]) -> Vec<String> {
        let (text, chain) = (&self.names.text, self.names.external());
        let allowed = ranges
            .iter()
            .map(|range| format!("-m comment --comment \"{text} loadbalancer IP\" -s {range} -j {chain}"));
        let mark = format!(
            "-m comment --comment \"other traffic to {text} will be dropped by KUBE-PROXY-FIREWALL\""
        );
        allowed.chain([mark]).collect()
    }
}
