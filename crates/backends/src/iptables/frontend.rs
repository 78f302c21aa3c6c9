//! A Service port → its rules in the chains that all share, and chains of its own.

use std::collections::BTreeMap;

use ferrule_kernel::iptables::{ChainName, RuleBuilder, RuleText};
use ferrule_model::ServicePortName;
use ferrule_plan::{
    FamilyPlan, Frontend, FrontendKey, FrontendKind, NodeTraffic, PlannedPort, PoolScope, Rules,
    TrafficSource, Verdict,
};
use ipnet::IpNet;

use super::base::{Dispatch, Host, serves_loopback};
use super::names::{MARK, PortNames};
use super::pool::{EndpointComments, SCOPES, endpoint, local_pods, spreading, written};

/// What one Service port adds to the tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PortRules {
    pub dispatch: Vec<(Dispatch, RuleText)>,
    /// Chains of its own, all in table nat.
    pub chains: BTreeMap<ChainName, Box<[RuleText]>>,
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

    /// Begins a rule that says whose it is and what about it.
    fn about(&self, what: &str) -> RuleBuilder {
        RuleText::build().comment(&format!("{} {what}", self.names.text))
    }

    fn cluster_ip(&mut self, key: FrontendKey, refusal: Verdict) {
        let matching = self.to(key);
        if let Some((_, scope)) = self.outline.internal {
            let rule = self.about("cluster IP").with(&matching).with("-j").with(&self.names.pool(scope));
            self.add(Dispatch::Services, rule);
        }
        self.refuse(Dispatch::Refusals, refusal, &matching);
    }

    fn external_address(&mut self, key: FrontendKey, kind: FrontendKind, is_restricted: bool) {
        let matching = self.to(key);
        let (what, chain) = match kind {
            FrontendKind::LoadBalancer if is_restricted => ("loadbalancer IP", self.names.firewall()),
            FrontendKind::LoadBalancer => ("loadbalancer IP", self.names.external()),
            FrontendKind::ExternalIp | FrontendKind::ClusterIp | FrontendKind::NodePort => {
                ("external IP", self.names.external())
            }
        };
        let rule = self.about(what).with(&matching).with("-j").with(&chain);
        self.add(Dispatch::Services, rule);
        if is_restricted {
            let what = format!("traffic not accepted by {}", self.names.firewall());
            let rule = self.about(&what).with(&matching).with("-j DROP");
            self.add(Dispatch::Firewall, rule);
        }
    }

    fn node_port(&mut self, number: u16, forwards: bool, refusal: Verdict) {
        let protocol = self.names.matching_protocol().done();
        if forwards {
            let chain = self.names.external();
            let begin = || RuleText::build().comment(&self.names.text).with(&protocol);
            let counted = begin().with("-d 127.0.0.0/8 --dport").with(number);
            let counted = counted.with("-m nfacct --nfacct-name localhost_nps_accepted_pkts -j").with(&chain);
            let rule = begin().with("--dport").with(number).with("-j").with(&chain);
            if self.host.counts_loopback && serves_loopback(self.node) {
                self.add(Dispatch::NodePorts, counted);
            }
            self.add(Dispatch::NodePorts, rule);
        }
        let matching = RuleText::build().with("-m addrtype --dst-type LOCAL").with(&protocol);
        self.refuse(Dispatch::ExternalRefusals, refusal, &matching.with("--dport").with(number).done());
    }

    fn refuse(&mut self, chain: Dispatch, verdict: Verdict, matching: &RuleText) {
        let (why, target) = match verdict {
            Verdict::Reject => ("has no endpoints", "-j REJECT"),
            Verdict::Drop => ("has no local endpoints", "-j DROP"),
            Verdict::Forward { .. } | Verdict::LeaveAlone => return,
        };
        let rule = self.about(why).with(matching).with(target);
        self.add(chain, rule);
    }

    fn health_check(&mut self, number: u16) {
        let rule = self.about("health check node port").with("-m tcp -p tcp --dport").with(number);
        self.add(Dispatch::HealthChecks, rule.with("-j ACCEPT"));
    }

    /// `-m tcp -p tcp -d 10.96.0.10 --dport 80`
    fn to(&self, key: FrontendKey) -> RuleText {
        let protocol = self.names.matching_protocol();
        let rule = match key {
            FrontendKey::Address(ip, _, port) => protocol.with("-d").with(ip).with("--dport").with(port),
            FrontendKey::OtherPorts(ip) => RuleText::build().with("-d").with(ip),
            FrontendKey::NodePort(_, port) | FrontendKey::LoopbackNodePort(_, port) => {
                protocol.with("--dport").with(port)
            }
        };
        rule.done()
    }

    fn add(&mut self, chain: Dispatch, rule: RuleBuilder) {
        self.rules.dispatch.push((chain, rule.done()));
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

    fn chain(&mut self, name: ChainName, rules: Vec<RuleText>) {
        self.rules.chains.insert(name, rules.into_boxed_slice());
    }

    /// Who reaches the cluster IP with an address that the endpoint cannot answer to directly.
    fn masquerading(&self, scope: PoolScope) -> Vec<RuleText> {
        let Some((key, _)) = self.outline.internal.filter(|(_, internal)| *internal == scope) else {
            return Vec::new();
        };
        let whom = match local_pods(self.node) {
            _ if self.node.masquerade_all => RuleText::default(),
            Some([_, others]) => others,
            None => return Vec::new(),
        };
        let rule = self.about("cluster IP").with(&self.to(key)).with(&whom).with("-j").with(MARK);
        vec![rule.done()]
    }

    fn external(&self, rules: &Rules) -> Vec<RuleText> {
        let text = &self.names.text;
        let about =
            |what: &str| RuleText::build().comment(&format!("{what} for {text} external destinations"));
        let mut list = Vec::new();
        for (source, verdict) in rules.iter() {
            let Verdict::Forward { pool, masquerade } = verdict else { continue };
            let chain = self.names.pool(pool);
            match source {
                TrafficSource::LocalPods => {
                    let [pods, _] = local_pods(self.node).unwrap_or_default();
                    list.push(about("pod traffic").with(&pods).with("-j").with(&chain));
                }
                TrafficSource::ThisHost => {
                    let host = "-m addrtype --src-type LOCAL -j";
                    list.push(about("masquerade LOCAL traffic").with(host).with(MARK));
                    list.push(about("route LOCAL traffic").with(host).with(&chain));
                }
                TrafficSource::Anyone => {
                    if masquerade {
                        list.push(about("masquerade traffic").with("-j").with(MARK));
                    }
                    list.push(RuleText::build().with("-j").with(&chain));
                }
                TrafficSource::OutsideRanges(_) => {}
            }
        }
        list.into_iter().map(RuleBuilder::done).collect()
    }

    fn firewall(&self, ranges: &[IpNet]) -> Vec<RuleText> {
        let (text, chain) = (&self.names.text, self.names.external());
        let allow = |range| {
            self.about("loadbalancer IP").with("-s").with(written(range)).with("-j").with(&chain).done()
        };
        let rest = format!("other traffic to {text} will be dropped by KUBE-PROXY-FIREWALL");
        ranges.iter().map(allow).chain([RuleText::build().comment(&rest).done()]).collect()
    }
}
