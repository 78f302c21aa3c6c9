//! The plan as an aligned table that a person can read: in stories, in logs, on the debug page.
//!
//! Equal plans show equal text. Nothing is read back from it.

use std::fmt;

use ferrule_model::{IpFamily, ServicePortName};

use crate::{
    FamilyPlan, Frontend, FrontendKey, HealthCheck, LocalPods, LoopbackNodePorts, Masquerade, NodePlan,
    NodePortScope, PlanDelta, Pool, PoolId, PoolScope, Rules, Shape, TrafficSource, Verdict,
};

/// The whole plan as text, one family after the other.
pub fn show(plan: &NodePlan) -> String {
    let families: Vec<String> = plan.families.iter().map(|(_, plan)| show_family(plan)).collect();
    families.join("")
}

/// One family's plan as text; empty if it has nothing to do.
pub fn show_family(plan: &FamilyPlan) -> String {
    let mut text = String::new();
    text.push_str(&frontends_table(plan));
    text.push_str(&pools_table(plan));
    text.push_str(&health_checks_table(plan));
    text
}

/// What holds for the whole node, a line each.
pub fn show_node(plan: &FamilyPlan) -> String {
    let node = &plan.node;
    let mut table = Table::new(&["NODE", ""]);
    table.row(&["family".into(), node.family.to_string()]);
    table.row(&["local pods".into(), node.local_pods.as_ref().map_or("unknown".into(), ToString::to_string)]);
    table.row(&["node port addresses".into(), node.node_port_addresses.to_string()]);
    table.row(&["loopback node ports".into(), node.loopback_node_ports.to_string()]);
    table.row(&["masquerade".into(), masquerading(plan)]);
    table.row(&["guarded service ranges".into(), joined(&node.guarded_service_cidrs)]);
    table.to_string()
}

/// A delta in one line: everything that changed, or nothing.
pub fn show_delta(delta: &PlanDelta) -> String {
    let node = delta.node.then(|| "node".to_string());
    let frontends = delta.frontends.keys().map(ToString::to_string);
    let pools = delta.pools.keys().map(ToString::to_string);
    let checks = delta.health_checks.keys().map(|name| format!("health check of {name}"));
    let flows = delta.stale_flows.iter().map(|owner| format!("flows of {owner}"));
    let changed: Vec<String> =
        node.into_iter().chain(frontends).chain(pools).chain(checks).chain(flows).collect();
    if changed.is_empty() { "nothing".into() } else { format!("changed  {}", changed.join(", ")) }
}

fn frontends_table(plan: &FamilyPlan) -> String {
    let mut table = Table::new(&["FRONTEND", "OWNER", "FROM", "THEN"]);
    let mut shown: Vec<(FrontendKey, Rules)> = Vec::new();
    let mut owner_before: Option<&ServicePortName> = None;
    for (key, frontend) in by_owner_runs(plan) {
        if owner_before != Some(&frontend.owner) {
            shown.clear();
        }
        owner_before = Some(&frontend.owner);
        let rules = frontend.rules(key, &plan.node);
        let alike = shown.iter().find(|(_, other)| is_worth_referring_to(other, &rules));
        match alike {
            Some((other, _)) => table.row(&[
                key.to_string(),
                frontend.owner.to_string(),
                format!("(as {other})"),
                String::new(),
            ]),
            None => rules_rows(&mut table, [key.to_string(), frontend.owner.to_string()], &rules),
        }
        shown.push((*key, rules));
    }
    table.to_string()
}

/// All frontends, those of one owner one after the other, owners in the order of their first key.
fn by_owner_runs(plan: &FamilyPlan) -> Vec<(&FrontendKey, &Frontend)> {
    let mut places: std::collections::HashMap<&ServicePortName, usize> = std::collections::HashMap::new();
    let mut runs: Vec<Vec<(&FrontendKey, &Frontend)>> = Vec::new();
    for (key, frontend) in plan.frontends() {
        let place = *places.entry(&frontend.owner).or_insert_with(|| {
            runs.push(Vec::new());
            runs.len() - 1
        });
        runs[place].push((key, &**frontend));
    }
    runs.into_iter().flatten().collect()
}

/// A list of one rule is as short as a reference to it.
fn is_worth_referring_to(other: &Rules, rules: &Rules) -> bool {
    other == rules && rules.iter().count() > 1
}

/// A row for each rule; what they are about stands in the first alone.
fn rules_rows(table: &mut Table, about: [String; 2], rules: &Rules) {
    let mut about = about;
    for (source, verdict) in rules.iter() {
        let [key, owner] = std::mem::take(&mut about);
        table.row(&[key, owner, source.to_string(), verdict.to_string()]);
    }
}

fn pools_table(plan: &FamilyPlan) -> String {
    let mut table = Table::new(&["POOL", "ENDPOINTS"]);
    for (id, pool) in plan.pools() {
        table.row(&[id.to_string(), pool.to_string()]);
    }
    table.to_string()
}

fn health_checks_table(plan: &FamilyPlan) -> String {
    let mut table = Table::new(&["HEALTH CHECK", "PORT", "LOCAL ENDPOINTS"]);
    for (name, HealthCheck { port, local_endpoints }) in plan.health_checks() {
        table.row(&[name.to_string(), port.to_string(), local_endpoints.to_string()]);
    }
    table.to_string()
}

fn masquerading(plan: &FamilyPlan) -> String {
    let all = if plan.node.masquerade_all { ", all cluster IP traffic" } else { "" };
    format!("mark {:#010x}{all}", plan.node.masquerade_mark)
}

/// Rows of cells, printed with each column as wide as its widest cell; nothing at all without a row.
struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(header: &[&str]) -> Self {
        Self { header: header.iter().map(ToString::to_string).collect(), rows: Vec::new() }
    }

    fn row(&mut self, cells: &[String]) {
        self.rows.push(cells.to_vec());
    }

    /// The last cell of a row may stick out: nothing stands behind it.
    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.header.iter().map(|cell| cell.chars().count()).collect();
        for row in &self.rows {
            let last = row.iter().rposition(|cell| !cell.is_empty()).unwrap_or_default();
            for (width, cell) in widths.iter_mut().zip(&row[..last]) {
                *width = (*width).max(cell.chars().count());
            }
        }
        widths
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.is_empty() {
            return Ok(());
        }
        let widths = self.widths();
        for row in std::iter::once(&self.header).chain(&self.rows) {
            let line: Vec<String> =
                row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
            writeln!(f, "{}", line.join("  ").trim_end())?;
        }
        Ok(())
    }
}

fn joined<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    if items.is_empty() { "none".into() } else { items.join(", ") }
}

impl fmt::Display for FrontendKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(ip, protocol, port) => match IpFamily::of(*ip) {
                IpFamily::V4 => write!(f, "{ip}:{port}/{protocol}"),
                IpFamily::V6 => write!(f, "[{ip}]:{port}/{protocol}"),
            },
            Self::UnmatchedPorts(ip) => write!(f, "{ip} other ports"),
            Self::NodePort(protocol, port) => write!(f, "nodePort {port}/{protocol}"),
            Self::LoopbackNodePort(protocol, port) => write!(f, "loopback nodePort {port}/{protocol}"),
        }
    }
}

impl fmt::Display for PoolScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cluster => "cluster",
            Self::Local => "local",
        })
    }
}

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.owner, self.scope)
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let endpoints = self
            .endpoints
            .iter()
            .map(|endpoint| std::net::SocketAddr::new(endpoint.ip, endpoint.port).to_string());
        f.write_str(&joined(endpoints))?;
        self.affinity_seconds.map_or(Ok(()), |seconds| write!(f, "  sticky {seconds}s"))
    }
}

impl fmt::Display for TrafficSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anyone => f.write_str("anyone"),
            Self::LocalPods => f.write_str("local pods"),
            Self::ThisHost => f.write_str("this host"),
            Self::OutsideRanges(ranges) if ranges.is_empty() => f.write_str("outside (no usable range)"),
            Self::OutsideRanges(ranges) => write!(f, "outside {}", joined(ranges.iter())),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forward { pool, masquerade: false } => write!(f, "{pool} pool"),
            Self::Forward { pool, masquerade: true } => write!(f, "{pool} pool, masquerade"),
            Self::Drop => f.write_str("drop"),
            Self::Reject => f.write_str("reject"),
            Self::Pass => f.write_str("pass"),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refuse(refusal) => write!(f, "{}", Verdict::from(*refusal)),
            Self::OnePool { pool, masquerade } => write!(f, "{pool} pool, masquerade {masquerade}"),
            Self::ShortCircuit { outsiders } => {
                let outsiders = Verdict::from(*outsiders);
                write!(f, "cluster pool for local pods and this host, {outsiders} for others")
            }
        }
    }
}

impl fmt::Display for Masquerade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AsClusterIps => "as cluster IPs",
            Self::Always => "always",
            Self::Never => "never",
        })
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules: Vec<String> =
            self.iter().map(|(source, verdict)| format!("{source} → {verdict}")).collect();
        f.write_str(&rules.join(" · "))
    }
}

impl fmt::Display for LocalPods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::From(block) => write!(f, "from {block}"),
            Self::ByInterface(name) => write!(f, "by interface {name}"),
            Self::ByInterfacePrefix(prefix) => write!(f, "by interface {prefix}*"),
        }
    }
}

impl fmt::Display for NodePortScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Only(addresses) => f.write_str(&joined(addresses)),
        }
    }
}

impl fmt::Display for LoopbackNodePorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotServed => "not served",
            Self::InKernel => "in the kernel",
            Self::Relayed => "relayed by this process",
            Self::ForwardedOrRejected => "forwarded or rejected",
        })
    }
}
