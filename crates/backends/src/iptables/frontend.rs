//! A Service port → its rules in the chains that all share, and chains of its own.

use std::collections::BTreeMap;

use ferrule_kernel::iptables::{ChainName, RuleBuilder, RuleText};
use ferrule_model::ServicePortName;
use ferrule_plan::{
    FamilyPlan, Frontend, FrontendKey, FrontendKind, Masquerade, NodeTraffic, Outsiders, PlannedPort,
    PoolScope, Refusal, Shape,
};
use ipnet::IpNet;

use super::base::{Dispatch, Host, serves_loopback};
use super::names::{MARK, PortNames};
use super::pool::{Affinity, EndpointComments, SCOPES, endpoint, local_pods, spreading, written};
use crate::state_hash::ObjectHash;

/// What one Service port adds to the tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PortRules {
    pub dispatch: Vec<(Dispatch, RuleText)>,
    /// Chains of its own, all in table nat.
    pub chains: BTreeMap<ChainName, Box<[RuleText]>>,
}

impl PortRules {
    pub(super) fn hash(&self) -> ObjectHash {
        let mut hash = ObjectHash::new();
        for (dispatch, rule) in &self.dispatch {
            hash.texts([dispatch.chain().0.name(), dispatch.chain().1, rule.as_str()]);
        }
        for (chain, rules) in &self.chains {
            hash.texts([chain.as_str()]);
            hash.texts(rules.iter().map(RuleText::as_str));
        }
        hash
    }
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
        let (names, node) = (PortNames::new(port.owner()), &self.plan.node);
        let outline = Outline::new(&port);
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

/// What a port's frontends have in common: one route for cluster IPs, one for all external addresses.
#[derive(Clone, Copy, Debug, Default)]
struct Outline<'a> {
    internal: Option<Internal>,
    /// The shape of external addresses and NodePorts, if anything is forwarded.
    external: Option<Shape>,
    /// The source ranges of load-balancer addresses.
    ranges: Option<&'a [IpNet]>,
}

/// The cluster IP and the pool behind it.
#[derive(Clone, Copy, Debug)]
struct Internal {
    key: FrontendKey,
    pool: PoolScope,
    masquerade: Masquerade,
}

impl<'a> Outline<'a> {
    fn new(port: &PlannedPort<'a>) -> Self {
        let mut outline = Self::default();
        for found in port.frontends() {
            match (&found.frontend.kind, found.frontend.shape) {
                (_, Shape::Refuse(_)) => {}
                (FrontendKind::ClusterIp, Shape::OnePool { pool, masquerade }) => {
                    outline.internal.get_or_insert(Internal { key: found.key, pool, masquerade });
                }
                (
                    FrontendKind::ClusterIp
                    | FrontendKind::LoadBalancer { .. }
                    | FrontendKind::ExternalIp
                    | FrontendKind::NodePort,
                    shape @ (Shape::OnePool { .. } | Shape::ShortCircuit { .. }),
                ) => {
                    outline.external.get_or_insert(shape);
                    let ranges = found.frontend.source_ranges().map(|ranges| &**ranges);
                    outline.ranges = outline.ranges.or(ranges);
                }
            }
        }
        outline
    }
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
        match key {
            FrontendKey::NodePort(_, number) => self.node_port(number, frontend.shape),
            FrontendKey::Address(..) => self.address(key, frontend),
            // Loopback addresses are served by the rules of node ports; unmatched ports have no rule.
            FrontendKey::LoopbackNodePort(..) | FrontendKey::UnmatchedPorts(_) => {}
        }
    }

    fn address(&mut self, key: FrontendKey, frontend: &Frontend) {
        match (&frontend.kind, frontend.shape) {
            (_, Shape::Refuse(_)) => {}
            (FrontendKind::ClusterIp, Shape::OnePool { pool, .. }) => self.cluster_ip(key, pool),
            (
                FrontendKind::ClusterIp
                | FrontendKind::LoadBalancer { .. }
                | FrontendKind::ExternalIp
                | FrontendKind::NodePort,
                Shape::OnePool { .. } | Shape::ShortCircuit { .. },
            ) => self.external_address(key, frontend),
        }
        let refusals = match frontend.kind {
            FrontendKind::ClusterIp => Dispatch::Refusals,
            FrontendKind::LoadBalancer { .. } | FrontendKind::ExternalIp | FrontendKind::NodePort => {
                Dispatch::ExternalRefusals
            }
        };
        self.refuse(refusals, frontend.shape, &self.to(key));
    }

    /// Begins a rule that says whose it is and what about it.
    fn about(&self, what: &str) -> RuleBuilder {
        RuleText::build().comment(&format!("{} {what}", self.names.text))
    }

    fn cluster_ip(&mut self, key: FrontendKey, pool: PoolScope) {
        let rule = self.about("cluster IP").with(&self.to(key)).with("-j").with(&self.names.pool(pool));
        self.add(Dispatch::Services, rule);
    }

    fn external_address(&mut self, key: FrontendKey, frontend: &Frontend) {
        let matching = self.to(key);
        let is_restricted = frontend.source_ranges().is_some();
        let chain = if is_restricted { self.names.firewall() } else { self.names.external() };
        let what = match frontend.kind {
            FrontendKind::LoadBalancer { .. } => "loadbalancer IP",
            FrontendKind::ExternalIp | FrontendKind::ClusterIp | FrontendKind::NodePort => "external IP",
        };
        let rule = self.about(what).with(&matching).with("-j").with(&chain);
        self.add(Dispatch::Services, rule);
        if is_restricted {
            let what = format!("traffic not accepted by {}", self.names.firewall());
            let rule = self.about(&what).with(&matching).with("-j DROP");
            self.add(Dispatch::Firewall, rule);
        }
    }

    fn node_port(&mut self, number: u16, shape: Shape) {
        let protocol = self.names.matching_protocol().done();
        match shape {
            Shape::Refuse(_) => {}
            Shape::OnePool { .. } | Shape::ShortCircuit { .. } => {
                let chain = self.names.external();
                let begin = || RuleText::build().comment(&self.names.text).with(&protocol);
                let counted = begin().with("-d 127.0.0.0/8 --dport").with(number);
                let counted =
                    counted.with("-m nfacct --nfacct-name localhost_nps_accepted_pkts -j").with(&chain);
                let rule = begin().with("--dport").with(number).with("-j").with(&chain);
                if self.host.counts_loopback && serves_loopback(self.node) {
                    self.add(Dispatch::NodePorts, counted);
                }
                self.add(Dispatch::NodePorts, rule);
            }
        }
        let matching = RuleText::build().with("-m addrtype --dst-type LOCAL").with(&protocol);
        self.refuse(Dispatch::ExternalRefusals, shape, &matching.with("--dport").with(number).done());
    }

    fn refuse(&mut self, chain: Dispatch, shape: Shape, matching: &RuleText) {
        let (why, target) = match shape.refusal() {
            Some(Refusal::Reject) => ("has no endpoints", "-j REJECT"),
            Some(Refusal::Drop) => ("has no local endpoints", "-j DROP"),
            None => return,
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
            FrontendKey::UnmatchedPorts(ip) => RuleText::build().with("-d").with(ip),
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
                let affinity = Affinity::from_pool(pool);
                let rules = endpoint(&self.names, found, affinity, comments);
                self.chain(self.names.endpoint(found), rules);
            }
        }
        if let Some(shape) = self.outline.external {
            self.chain(self.names.external(), self.external(shape));
            if let Some(ranges) = self.outline.ranges {
                self.chain(self.names.firewall(), self.firewall(ranges));
            }
        }
    }

    fn chain(&mut self, name: ChainName, rules: Vec<RuleText>) {
        self.rules.chains.insert(name, rules.into_boxed_slice());
    }

    /// Marks clients of the cluster IP whose address the endpoint cannot answer to directly.
    fn masquerading(&self, scope: PoolScope) -> Vec<RuleText> {
        let Some(internal) = self.outline.internal.filter(|internal| internal.pool == scope) else {
            return Vec::new();
        };
        let matching = self.to(internal.key);
        let whom = self.masqueraded(internal.masquerade);
        let mark = |whom| self.about("cluster IP").with(&matching).with(&whom).with("-j").with(MARK).done();
        whom.map(mark).into_iter().collect()
    }

    /// What matches the clients that are masqueraded, if any are.
    fn masqueraded(&self, masquerade: Masquerade) -> Option<RuleText> {
        match masquerade {
            Masquerade::Always => Some(RuleText::default()),
            Masquerade::Never => None,
            Masquerade::AsClusterIps if self.node.masquerade_all => Some(RuleText::default()),
            Masquerade::AsClusterIps => local_pods(self.node).map(|[_, others]| others),
        }
    }

    fn external(&self, shape: Shape) -> Vec<RuleText> {
        let text = &self.names.text;
        let about =
            |what: &str| RuleText::build().comment(&format!("{what} for {text} external destinations"));
        let to = |pool| RuleText::build().with("-j").with(&self.names.pool(pool));
        let mut list = Vec::new();
        match shape {
            Shape::Refuse(_) => {}
            Shape::OnePool { pool, masquerade } => {
                let whom = self.masqueraded(masquerade);
                list.extend(whom.map(|whom| about("masquerade traffic").with(&whom).with("-j").with(MARK)));
                list.push(to(pool));
            }
            Shape::ShortCircuit { outsiders } => {
                let cluster = self.names.pool(PoolScope::Cluster);
                let host = "-m addrtype --src-type LOCAL -j";
                let pods = local_pods(self.node);
                list.extend(pods.map(|[pods, _]| about("pod traffic").with(&pods).with("-j").with(&cluster)));
                list.push(about("masquerade LOCAL traffic").with(host).with(MARK));
                list.push(about("route LOCAL traffic").with(host).with(&cluster));
                match outsiders {
                    Outsiders::LocalPool => list.push(to(PoolScope::Local)),
                    Outsiders::Dropped => {}
                }
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
