//! Converts Services.

use std::net::IpAddr;
use std::sync::Arc;

use ferrule_model::{
    Change, IpFamily, ObjectKind, PerFamily, Problem, Service, ServiceName, SourceRanges, Timestamp,
    TrafficPolicy, is_zero_cidr,
};
use ipnet::IpNet;

use super::Converted;
use super::fields::{FieldReader, LinkLocal, Namespaced};
use super::service_ports::service_ports;
use crate::api;

/// The API server's default for the affinity timeout.
const DEFAULT_AFFINITY_SECONDS: u32 = 10_800;
const MAX_AFFINITY_SECONDS: i64 = 86_400;

/// A Service that was added or modified. One that is not proxied, or cannot be used, is removed.
pub fn service(object: &api::Service) -> Converted {
    let mut reader = FieldReader::new(ObjectKind::Service, &object.metadata);
    if !reader.has_usable_name(&object.metadata, Namespaced::Yes) {
        return Converted { change: None, diagnostics: reader.diagnostics };
    }
    let name = ServiceName::of(&object.metadata.namespace, &object.metadata.name);
    let service = if is_proxied(object) { convert(&mut reader, object) } else { None };
    Converted { change: Some(Change::Service(name, service)), diagnostics: reader.diagnostics }
}

/// A Service that was deleted.
pub fn service_deleted(metadata: &api::ObjectMeta) -> Converted {
    let usable = FieldReader::new(ObjectKind::Service, metadata).has_usable_name(metadata, Namespaced::Yes);
    let name = ServiceName::of(&metadata.namespace, &metadata.name);
    Converted { change: usable.then_some(Change::Service(name, None)), diagnostics: Vec::new() }
}

/// False for headless Services, `ExternalName`s and those of another proxy.
fn is_proxied(object: &api::Service) -> bool {
    object.metadata.labels.service_proxy_name.is_none()
        && !matches!(object.spec.cluster_ip.as_str(), "" | "None")
        && object.spec.kind != "ExternalName"
}

fn convert(reader: &mut FieldReader, object: &api::Service) -> Option<Arc<Service>> {
    let spec = &object.spec;
    let cluster_ips = cluster_ips(reader, spec);
    if cluster_ips.is_empty() {
        return None;
    }
    let created = reader.time("metadata.creationTimestamp", object.metadata.creation_timestamp.as_deref());
    let external_ips = external_ips(reader, spec);
    let load_balancer_vips = load_balancer_vips(reader, object);
    let external_policy = external_policy(reader, spec);
    let served: Vec<IpAddr> = load_balancer_vips
        .iter()
        .copied()
        .filter(|vip| cluster_ips.get(IpFamily::of(*vip)).is_some())
        .collect();
    let source_ranges = source_ranges(reader, spec, &served);
    Some(Arc::new(Service {
        created: created.unwrap_or(Timestamp::UNKNOWN),
        cluster_ips,
        external_ips,
        source_ranges,
        load_balancer_vips,
        internal_policy: policy(reader, "spec.internalTrafficPolicy", &spec.internal_traffic_policy),
        external_policy,
        affinity_seconds: affinity_seconds(reader, spec),
        health_check_port: health_check_port(reader, spec, external_policy),
        is_counted: is_counted(&object.metadata),
        ports: service_ports(reader, &spec.ports),
    }))
}

/// A label or an annotation asks for it. Any other value than `true` does not, as it is with labels.
fn is_counted(metadata: &api::ObjectMeta) -> bool {
    let asked = [&metadata.labels.counters, &metadata.annotations.counters];
    asked.into_iter().flatten().any(|value| value == "true")
}

/// An old API server gives one cluster IP and no families; otherwise families and addresses go in pairs.
fn cluster_ips(reader: &mut FieldReader, spec: &api::ServiceSpec) -> PerFamily<IpAddr> {
    let mut ips = PerFamily::default();
    if spec.ip_families.is_empty() {
        let ip = reader.service_ip(|| "spec.clusterIP".into(), &spec.cluster_ip, LinkLocal::Allowed);
        if let Some(ip) = ip {
            ips.set(IpFamily::of(ip), ip);
        }
        return ips;
    }
    for (index, (family, text)) in spec.ip_families.iter().zip(&spec.cluster_ips).enumerate() {
        let family = match family.as_str() {
            "IPv4" => IpFamily::V4,
            "IPv6" => IpFamily::V6,
            other => {
                let problem = Problem::UnknownValue(other.to_string(), "its cluster IP is ignored");
                reader.report(format!("spec.ipFamilies[{index}]"), problem);
                continue;
            }
        };
        let field = || format!("spec.clusterIPs[{index}]");
        let Some(ip) = reader.service_ip(field, text, LinkLocal::Allowed) else { continue };
        if IpFamily::of(ip) != family {
            reader.report(field(), Problem::OtherFamily(text.clone()));
        } else if ips.get(family).is_none() {
            ips.set(family, ip);
        }
    }
    ips
}

/// Blank entries are ignored silently; white space around an address makes it invalid.
fn external_ips(reader: &mut FieldReader, spec: &api::ServiceSpec) -> Box<[IpAddr]> {
    let entries = spec.external_ips.iter().enumerate().filter(|(_, text)| !text.trim().is_empty());
    let ip = |(index, text): (usize, &String)| {
        reader.service_ip(|| format!("spec.externalIPs[{index}]"), text, LinkLocal::Rejected)
    };
    entries.filter_map(ip).collect()
}

fn load_balancer_vips(reader: &mut FieldReader, object: &api::Service) -> Box<[IpAddr]> {
    let is_vip = |ingress: &api::LoadBalancerIngress| {
        !ingress.ip.is_empty() && ingress.ip_mode.as_deref().is_none_or(|mode| mode == "VIP")
    };
    let ingress = object.status.load_balancer.ingress.iter().enumerate();
    ingress
        .filter(|(_, ingress)| is_vip(ingress))
        .filter_map(|(index, ingress)| {
            let field = || format!("status.loadBalancer.ingress[{index}].ip");
            reader.service_ip(field, &ingress.ip, LinkLocal::Allowed)
        })
        .collect()
}

fn policy(reader: &mut FieldReader, field: &str, text: &str) -> TrafficPolicy {
    match text {
        "Local" => TrafficPolicy::Local,
        "Cluster" | "" => TrafficPolicy::Cluster,
        other => {
            reader.report(field, Problem::UnknownValue(other.to_string(), "Cluster is used"));
            TrafficPolicy::Cluster
        }
    }
}

/// The external policy applies only to Services that can be reached from outside the cluster.
fn external_policy(reader: &mut FieldReader, spec: &api::ServiceSpec) -> TrafficPolicy {
    let is_external = match spec.kind.as_str() {
        "LoadBalancer" | "NodePort" => true,
        // An absent type is the API's default, ClusterIP.
        "ClusterIP" | "" => !spec.external_ips.is_empty(),
        _ => false,
    };
    if is_external {
        policy(reader, "spec.externalTrafficPolicy", &spec.external_traffic_policy)
    } else {
        TrafficPolicy::Cluster
    }
}

fn affinity_seconds(reader: &mut FieldReader, spec: &api::ServiceSpec) -> Option<u32> {
    match spec.session_affinity.as_str() {
        "ClientIP" => {}
        "None" | "" => return None,
        other => {
            reader.report("spec.sessionAffinity", Problem::UnknownValue(other.to_string(), "None is used"));
            return None;
        }
    }
    let Some(seconds) = spec.session_affinity_config.client_ip.timeout_seconds else {
        return Some(DEFAULT_AFFINITY_SECONDS);
    };
    let usable = u32::try_from(seconds).ok().filter(|_| (1..=MAX_AFFINITY_SECONDS).contains(&seconds));
    if usable.is_none() {
        reader.report("spec.sessionAffinityConfig.clientIP.timeoutSeconds", Problem::NotATimeout(seconds));
    }
    Some(usable.unwrap_or(DEFAULT_AFFINITY_SECONDS))
}

fn health_check_port(
    reader: &mut FieldReader,
    spec: &api::ServiceSpec,
    external: TrafficPolicy,
) -> Option<u16> {
    const FIELD: &str = "spec.healthCheckNodePort";
    if spec.kind != "LoadBalancer" || external != TrafficPolicy::Local {
        return None;
    }
    if spec.health_check_node_port == 0 {
        reader.report(FIELD, Problem::Missing("load balancers cannot ask for this node's endpoints"));
        return None;
    }
    reader.port(|| FIELD.into(), spec.health_check_node_port)
}

/// A zero CIDR lifts the restriction of its family. If no range is valid, the load balancer is closed: kube-proxy opens
/// it, which is the one thing the user did not ask for.
fn source_ranges(reader: &mut FieldReader, spec: &api::ServiceSpec, vips: &[IpAddr]) -> SourceRanges {
    const FIELD: &str = "spec.loadBalancerSourceRanges";
    let texts = spec.load_balancer_source_ranges.iter().map(|text| text.trim()).enumerate();
    let entries: Vec<(usize, &str)> = texts.filter(|(_, text)| !text.is_empty()).collect();
    if entries.is_empty() {
        return SourceRanges::Anyone;
    }
    let ranges: Vec<IpNet> = entries
        .iter()
        .filter_map(|(index, text)| reader.cidr(|| format!("{FIELD}[{index}]"), text))
        .collect();
    if ranges.is_empty() {
        reader.report(FIELD, Problem::RangesCloseIt);
        return SourceRanges::Nobody;
    }
    for family in IpFamily::BOTH {
        let restricted = ranges.iter().any(|net| IpFamily::of_net(net) == family);
        if !restricted && vips.iter().any(|vip| IpFamily::of(*vip) == family) {
            reader.report(FIELD, Problem::RangesLeaveItOpen(family));
        }
    }
    let lifted = |net: &IpNet| {
        ranges.iter().any(|other| is_zero_cidr(other) && IpFamily::of_net(other) == IpFamily::of_net(net))
    };
    let blocks: Box<[IpNet]> = ranges.iter().copied().filter(|net| !lifted(net)).collect();
    if blocks.is_empty() { SourceRanges::Anyone } else { SourceRanges::Only(blocks) }
}
