//! Everything about one Service: what it asks for, its frontends with their rules, its endpoints with the reasons.

use std::net::SocketAddr;

use ferrule_model::{Service, ServiceName, ServicePort, SourceRanges, TrafficPolicy};
use ferrule_plan::{
    EndpointReasons, FamilyPlan, FamilyReasons, FrontendReasons, Holder, Membership, NotServed, PortReasons,
};
use serde::Serialize;

use super::plan::{kind, rule_rows};
use super::services::States;
use super::{QuestionError, RuleRow, ServiceState, explain::listed};
use crate::run::Snapshot;

/// More endpoints of a port than these are counted only.
const MAX_ENDPOINTS: usize = 1000;

/// Everything about one Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceAnswer {
    /// The node that was asked.
    pub node: String,
    /// Its proxy mode.
    pub mode: String,
    /// Whether the cluster has changed since the plan was made.
    pub pending_changes: bool,
    /// `namespace/name`
    pub service: String,
    /// Whether it is served.
    pub state: ServiceState,
    /// What it asks for.
    pub spec: Spec,
    /// Its families, those it is not served in too.
    pub families: Vec<FamilyRow>,
    /// What of it and of its EndpointSlices could not be used.
    pub unusable: Vec<String>,
}

/// What a Service asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// IPv4 first.
    pub cluster_ips: Vec<String>,
    /// In the object's order.
    pub external_ips: Vec<String>,
    /// Those of load balancers that packets arrive with.
    pub load_balancer_ips: Vec<String>,
    /// Who may use these; `null` means everyone.
    pub source_ranges: Option<Vec<String>>,
    /// `Cluster` or `Local`
    pub internal_traffic_policy: String,
    /// `Cluster` or `Local`
    pub external_traffic_policy: String,
    /// How long a client keeps its endpoint, if it does.
    pub affinity_seconds: Option<u32>,
    /// Where load balancers ask for its health.
    pub health_check_port: Option<u16>,
    /// Its ports.
    pub ports: Vec<SpecPort>,
}

/// A port as the Service has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SpecPort {
    /// Its name; may be empty.
    pub name: String,
    /// `tcp`, `udp` or `sctp`
    pub protocol: String,
    /// Its number.
    pub port: u16,
    /// Its number on the node's addresses.
    pub node_port: Option<u16>,
}

/// How a Service is served in one family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FamilyRow {
    /// `IPv4` or `IPv6`
    pub family: String,
    /// Why it is not served there, if so.
    pub not_served: Option<String>,
    /// Its ports.
    pub ports: Vec<PortRow>,
}

/// How a port is served in one family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PortRow {
    /// `namespace/name:port`
    pub port: String,
    /// `tcp`, `udp` or `sctp`
    pub protocol: String,
    /// What is notable: hints, source ranges, addresses that became no frontend.
    pub notes: Vec<String>,
    /// The addresses and node ports that it claims.
    pub frontends: Vec<ClaimRow>,
    /// How many endpoints there are.
    pub endpoints_total: usize,
    /// The first thousand of them.
    pub endpoints: Vec<EndpointRow>,
}

/// An address or node port that a Service port claims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClaimRow {
    /// Such as `10.96.0.10:80/tcp`.
    pub frontend: String,
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalIP`
    pub kind: String,
    /// Whether this Service has it.
    pub held: bool,
    /// Who has it, if there is something to say.
    pub holder: Option<String>,
    /// Why it treats traffic as it does.
    pub why: String,
    /// The first that is about a packet's source decides. None if another Service has the frontend.
    pub rules: Vec<RuleRow>,
}

/// An endpoint of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EndpointRow {
    /// `ip:port`, or the address alone if its slice has no such port.
    pub endpoint: String,
    /// Whether it is on this node.
    pub local: bool,
    /// Such as `ready` or `serving, terminating`.
    pub conditions: String,
    /// Whether any traffic may go to it.
    pub used: bool,
    /// Why.
    pub why: String,
}

/// Everything about a Service, or that there is none.
pub fn answer(snapshot: &Snapshot, name: &ServiceName) -> Result<ServiceAnswer, QuestionError> {
    let service = snapshot.cluster.service(name).and_then(|state| state.service());
    let (Some(service), Some(reasons)) = (service, snapshot.explainer().service(name)) else {
        return Err(QuestionError(format!("there is no Service {:?} that has a cluster IP", name.as_str())));
    };
    Ok(ServiceAnswer {
        node: snapshot.view.name.to_string(),
        mode: snapshot.mode.name().to_owned(),
        pending_changes: snapshot.has_pending_changes,
        service: name.to_string(),
        state: States::of(snapshot).of_service(name, service),
        spec: spec(service),
        families: reasons.families.iter().map(|family| family_row(snapshot, family)).collect(),
        unusable: reasons.unusable.iter().map(ToString::to_string).collect(),
    })
}

fn spec(service: &Service) -> Spec {
    let texts = |ips: &[std::net::IpAddr]| ips.iter().map(ToString::to_string).collect();
    Spec {
        cluster_ips: service.cluster_ips.iter().map(|(_, ip)| ip.to_string()).collect(),
        external_ips: texts(&service.external_ips),
        load_balancer_ips: texts(&service.load_balancer_vips),
        source_ranges: match &service.source_ranges {
            SourceRanges::Anyone => None,
            SourceRanges::Nobody => Some(Vec::new()),
            SourceRanges::Only(blocks) => Some(blocks.iter().map(ToString::to_string).collect()),
        },
        internal_traffic_policy: policy(service.internal_policy),
        external_traffic_policy: policy(service.external_policy),
        affinity_seconds: service.affinity_seconds,
        health_check_port: service.health_check_port,
        ports: service.ports.iter().map(spec_port).collect(),
    }
}

fn policy(policy: TrafficPolicy) -> String {
    match policy {
        TrafficPolicy::Cluster => "Cluster".to_owned(),
        TrafficPolicy::Local => "Local".to_owned(),
    }
}

fn spec_port(port: &ServicePort) -> SpecPort {
    SpecPort {
        name: port.name.to_string(),
        protocol: port.protocol.to_string(),
        port: port.number,
        node_port: port.node_port,
    }
}

fn family_row(snapshot: &Snapshot, reasons: &FamilyReasons) -> FamilyRow {
    let plan = snapshot.plan.families.get(reasons.family);
    FamilyRow {
        family: reasons.family.to_string(),
        not_served: reasons.not_served.as_ref().map(NotServed::to_string),
        ports: reasons.ports.iter().map(|port| port_row(plan, port)).collect(),
    }
}

fn port_row(plan: Option<&FamilyPlan>, reasons: &PortReasons) -> PortRow {
    let mut notes: Vec<String> = reasons.hints.iter().map(ToString::to_string).collect();
    notes.extend(reasons.unclaimed.iter().map(|unclaimed| format!("no frontend {unclaimed}")));
    if reasons.source_ranges_ignored {
        notes.push("source ranges are ignored: there is no endpoint".to_owned());
    }
    PortRow {
        port: reasons.owner.to_string(),
        protocol: reasons.owner.protocol.to_string(),
        notes,
        frontends: reasons.frontends.iter().map(|frontend| claim_row(plan, frontend)).collect(),
        endpoints_total: reasons.endpoints.len(),
        endpoints: reasons.endpoints.iter().take(MAX_ENDPOINTS).map(endpoint_row).collect(),
    }
}

fn claim_row(plan: Option<&FamilyPlan>, reasons: &FrontendReasons) -> ClaimRow {
    let FrontendReasons { key, frontend, why, holder } = reasons;
    let held = !matches!(holder, Holder::Lost { .. });
    let rules = plan.filter(|_| held).map(|plan| frontend.rules(key, &plan.node));
    ClaimRow {
        frontend: key.to_string(),
        kind: kind(&frontend.kind).to_owned(),
        held,
        holder: (*holder != Holder::OnlyClaimant).then(|| holder.to_string()),
        why: why.to_string(),
        rules: rules.as_ref().map(rule_rows).unwrap_or_default(),
    }
}

fn endpoint_row(reasons: &EndpointReasons) -> EndpointRow {
    let EndpointReasons { ip, port, is_local, conditions, cluster, local } = reasons;
    EndpointRow {
        endpoint: port.map_or_else(|| ip.to_string(), |port| SocketAddr::new(*ip, port).to_string()),
        local: *is_local,
        conditions: listed(*conditions),
        used: cluster.is_in() || local.is_in(),
        why: why(*cluster, *local),
    }
}

/// Both pools in one sentence; what only says that a pool is not part of the plan is left out where the other says more.
fn why(cluster: Membership, local: Membership) -> String {
    use ferrule_plan::Excluded::{PoolNotNeeded, PoolUnused};
    let is_silent = |membership| matches!(membership, Membership::Out(PoolNotNeeded | PoolUnused));
    if cluster == local || is_silent(local) {
        cluster.to_string()
    } else if is_silent(cluster) {
        format!("local traffic: {local}")
    } else {
        format!("any traffic: {cluster}; local traffic: {local}")
    }
}
