//! A Service, distilled.

use std::net::IpAddr;
use std::sync::Arc;

use ferrule_model::{
    Change, IpFamily, ObjectKind, PerFamily, Problem, Service, ServiceName, SourceRanges, Timestamp,
    TrafficPolicy, is_zero_cidr,
};
use ipnet::IpNet;

use super::Converted;
use super::fields::{LinkLocal, Namespaced, Reader};
use super::service_ports::service_ports;
use crate::api;

/// How long a client keeps its endpoint if the object does not say, as the API server defaults it.
const DEFAULT_AFFINITY_SECONDS: u32 = 10_800;
const LONGEST_AFFINITY_SECONDS: i64 = 86_400;

/// A Service that was put.
pub fn service(object: &api::Service) -> Converted {
    let mut reader = Reader::new(ObjectKind::Service, &object.metadata);
    if !reader.has_usable_name(&object.metadata, Namespaced::Yes) {
        return Converted { change: None, diagnostics: reader.diagnostics };
    }
    let name = ServiceName::of(&object.metadata.namespace, &object.metadata.name);
    let distilled = if is_proxied(object) { distil(&mut reader, object) } else { None };
    Converted { change: Some(Change::Service(name, distilled)), diagnostics: reader.diagnostics }
}

/// A Service that was deleted.
pub fn service_deleted(metadata: &api::ObjectMeta) -> Converted {
    let usable = Reader::new(ObjectKind::Service, metadata).has_usable_name(metadata, Namespaced::Yes);
    let name = ServiceName::of(&metadata.namespace, &metadata.name);
    Converted { change: usable.then_some(Change::Service(name, None)), diagnostics: Vec::new() }
}

/// Headless Services, `ExternalName`s and those of another proxy are none of ours.
fn is_proxied(object: &api::Service) -> bool {
    object.metadata.labels.service_proxy_name.is_none()
        && !matches!(object.spec.cluster_ip.as_str(), "" | "None")
        && object.spec.kind != "ExternalName"
}

fn distil(reader: &mut Reader, object: &api::Service) -> Option<Arc<Service>> {
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
        ports: service_ports(reader, &spec.ports),
    }))
}

/// An old API server gives one cluster IP and no families; otherwise families and addresses go in pairs.
fn cluster_ips(reader: &mut Reader, spec: &api::ServiceSpec) -> PerFamily<IpAddr> {
    let mut ips = PerFamily::default();
    if spec.ip_families.is_empty() {
        let ip = reader.service_ip(|| "spec.clusterIP".into(), &spec.cluster_ip, LinkLocal::Allowed);
        if let Some(ip) = ip {
            ips.set(IpFamily::of(ip), ip);
        }
        return ips;
    }
    for (at, (family, text)) in spec.ip_families.iter().zip(&spec.cluster_ips).enumerate() {
        let family = match family.as_str() {
            "IPv4" => IpFamily::V4,
            "IPv6" => IpFamily::V6,
            other => {
                let problem = Problem::UnknownValue(other.to_string(), "its cluster IP is ignored");
                reader.report(format!("spec.ipFamilies[{at}]"), problem);
                continue;
            }
        };
        let field = || format!("spec.clusterIPs[{at}]");
        let Some(ip) = reader.service_ip(field, text, LinkLocal::Allowed) else { continue };
        if IpFamily::of(ip) != family {
            reader.report(field(), Problem::OtherFamily(text.clone()));
        } else if ips.get(family).is_none() {
            ips.set(family, ip);
        }
    }
    ips
}

/// Blank entries are passed over in silence; white space around an address makes it unusable.
fn external_ips(reader: &mut Reader, spec: &api::ServiceSpec) -> Box<[IpAddr]> {
    let entries = spec.external_ips.iter().enumerate().filter(|(_, text)| !text.trim().is_empty());
    let ip = |(at, text): (usize, &String)| {
        reader.service_ip(|| format!("spec.externalIPs[{at}]"), text, LinkLocal::Refused)
    };
    entries.filter_map(ip).collect()
}

fn load_balancer_vips(reader: &mut Reader, object: &api::Service) -> Box<[IpAddr]> {
    let is_vip = |ingress: &api::LoadBalancerIngress| {
        !ingress.ip.is_empty() && ingress.ip_mode.as_deref().is_none_or(|mode| mode == "VIP")
    };
    let ingress = object.status.load_balancer.ingress.iter().enumerate();
    ingress
        .filter(|(_, ingress)| is_vip(ingress))
        .filter_map(|(at, ingress)| {
            let field = || format!("status.loadBalancer.ingress[{at}].ip");
            reader.service_ip(field, &ingress.ip, LinkLocal::Allowed)
        })
        .collect()
}

fn policy(reader: &mut Reader, field: &str, text: &str) -> TrafficPolicy {
    match text {
        "Local" => TrafficPolicy::Local,
        "Cluster" | "" => TrafficPolicy::Cluster,
        other => {
            reader.report(field, Problem::UnknownValue(other.to_string(), "Cluster is used"));
            TrafficPolicy::Cluster
        }
    }
}

/// The external policy holds only for Services that are meant to be reached from outside.
fn external_policy(reader: &mut Reader, spec: &api::ServiceSpec) -> TrafficPolicy {
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

fn affinity_seconds(reader: &mut Reader, spec: &api::ServiceSpec) -> Option<u32> {
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
    let usable = u32::try_from(seconds).ok().filter(|_| (1..=LONGEST_AFFINITY_SECONDS).contains(&seconds));
    if usable.is_none() {
        reader.report("spec.sessionAffinityConfig.clientIP.timeoutSeconds", Problem::NotATimeout(seconds));
    }
    Some(usable.unwrap_or(DEFAULT_AFFINITY_SECONDS))
}

fn health_check_port(reader: &mut Reader, spec: &api::ServiceSpec, external: TrafficPolicy) -> Option<u16> {
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

/// A block of everything lifts the restriction of its family. Ranges of which none can be read close the load
/// balancer: opening it, as kube-proxy does, is the one thing the user did not ask for.
fn source_ranges(reader: &mut Reader, spec: &api::ServiceSpec, vips: &[IpAddr]) -> SourceRanges {
    const FIELD: &str = "spec.loadBalancerSourceRanges";
    let texts = spec.load_balancer_source_ranges.iter().map(|text| text.trim()).enumerate();
    let asked: Vec<(usize, &str)> = texts.filter(|(_, text)| !text.is_empty()).collect();
    if asked.is_empty() {
        return SourceRanges::Anyone;
    }
    let read: Vec<IpNet> =
        asked.iter().filter_map(|(at, text)| reader.cidr(|| format!("{FIELD}[{at}]"), text)).collect();
    if read.is_empty() {
        reader.report(FIELD, Problem::RangesCloseIt);
        return SourceRanges::Nobody;
    }
    for family in IpFamily::BOTH {
        let restricted = read.iter().any(|net| IpFamily::of_net(net) == family);
        if !restricted && vips.iter().any(|vip| IpFamily::of(*vip) == family) {
            reader.report(FIELD, Problem::RangesLeaveItOpen(family));
        }
    }
    let lifted = |net: &IpNet| {
        read.iter().any(|other| is_zero_cidr(other) && IpFamily::of_net(other) == IpFamily::of_net(net))
    };
    let blocks: Box<[IpNet]> = read.iter().copied().filter(|net| !lifted(net)).collect();
    if blocks.is_empty() { SourceRanges::Anyone } else { SourceRanges::Only(blocks) }
}
