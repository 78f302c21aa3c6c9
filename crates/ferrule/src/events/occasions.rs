//! What there are Events about, and in which words.

use ferrule_model::{Diagnostic, NodeName, ObjectKind, Problem, ServiceName};

use super::shape::{Occurrence, Regarding, Severity};
use crate::health::Moment;

/// What kube-proxy does when it starts.
const START: &str = "StartKubeProxy";

/// Something that may happen: an occurrence but for its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occasion {
    severity: Severity,
    reason: &'static str,
    action: &'static str,
    regarding: Regarding,
    note: String,
}

impl Occasion {
    /// It happens now.
    pub fn at(self, at: Moment) -> Occurrence {
        let Self { severity, reason, action, regarding, note } = self;
        Occurrence { severity, reason, action, regarding, note, at }
    }

    /// What it tells people.
    pub fn told(&self) -> &str {
        &self.note
    }

    fn warning(reason: &'static str, action: &'static str, regarding: Regarding, note: String) -> Self {
        Self { severity: Severity::Warning, reason, action, regarding, note }
    }
}

/// The proxy begins.
pub fn starting(node: &NodeName) -> Occasion {
    let (reason, regarding) = ("Starting", about_node(node));
    Occasion { severity: Severity::Normal, reason, action: START, regarding, note: String::new() }
}

/// A port is taken, and the proxy ends for it.
pub fn failed_to_start_server(node: &NodeName, server: &str, problem: String) -> Occasion {
    let reason =
        if server == "healthz" { "FailedToStartProxierHealthcheck" } else { "FailedToStartMetricServer" };
    Occasion::warning(reason, START, about_node(node), problem)
}

/// The port of a Service's health checks is taken.
pub fn failed_to_start_service_check(node: &NodeName, check: (&ServiceName, u16), problem: &str) -> Occasion {
    let (service, port) = check;
    let told = format!(
        "node {node} failed to start healthcheck {:?} on port {port}: {problem}",
        service.to_string()
    );
    let regarding = about(ObjectKind::Service, &service.to_string());
    Occasion::warning("FailedToStartServiceHealthcheck", "Listen", regarding, told)
}

/// Nobody chose a mode.
pub fn mode_by_default(node: &NodeName) -> Occasion {
    let told = "no proxy mode is set, iptables is used; the default becomes nftables in Kubernetes 1.40, \
                set the mode to be sure of it";
    Occasion::warning("KubeProxyDefaultMode", START, about_node(node), told.to_owned())
}

/// The mode goes away.
pub fn ipvs_is_deprecated(node: &NodeName) -> Occasion {
    let told = "the ipvs proxy mode is deprecated, off by default from Kubernetes 1.40 and gone in 1.43; use nftables";
    Occasion::warning("IPVSDeprecation", START, about_node(node), told.to_owned())
}

/// Settings of the kernel could not be written.
pub fn untuned(node: &NodeName, problem: String) -> Occasion {
    Occasion::warning("FerruleKernelSettings", START, about_node(node), problem)
}

/// Something about an object cannot be used. The action tells classes apart, so that there is one Event for each of an
/// object's.
pub fn unusable(diagnostic: &Diagnostic, own_node: &NodeName) -> Occasion {
    let (reason, action) = class(&diagnostic.problem);
    let regarding = match diagnostic.kind {
        ObjectKind::Node => about_node(own_node),
        kind => about(kind, &diagnostic.object),
    };
    Occasion::warning(reason, action, regarding, format!("{}: {}", diagnostic.field, diagnostic.problem))
}

fn class(problem: &Problem) -> (&'static str, &'static str) {
    const FIELD: &str = "FerruleUnusableField";
    match problem {
        Problem::NotAnAddress(_) | Problem::SpecialAddress(..) => (FIELD, "ReadAddress"),
        Problem::NotACidr(_) => (FIELD, "ReadCIDR"),
        Problem::OtherFamily(_) => (FIELD, "ReadFamily"),
        Problem::NotAPort(_) => (FIELD, "ReadPort"),
        Problem::UnknownProtocol(_) => (FIELD, "ReadProtocol"),
        Problem::UnknownAddressType(_) => (FIELD, "ReadAddressType"),
        Problem::UnusableName(_) => (FIELD, "ReadName"),
        Problem::UnknownValue(..) => (FIELD, "ReadValue"),
        Problem::Missing(_) => (FIELD, "ReadMissing"),
        Problem::DuplicatePort(_) => (FIELD, "ReadDuplicate"),
        Problem::NotATimeout(_) => (FIELD, "ReadTimeout"),
        Problem::NotATime(_) => (FIELD, "ReadTime"),
        Problem::RangesLeaveItOpen(_) => ("FerruleOpenToEveryone", "ReadRanges"),
        Problem::RangesCloseIt => ("FerruleClosedToEveryone", "ReadRanges"),
        Problem::ExternalIpRefused(_) => ("FerruleExternalIPRefused", "Plan"),
        Problem::Claimed { .. } => ("FerruleAddressTaken", "Claim"),
    }
}

fn about_node(node: &NodeName) -> Regarding {
    about(ObjectKind::Node, &node.to_string())
}

fn about(kind: ObjectKind, object: &str) -> Regarding {
    let (namespace, name) = match object.split_once('/') {
        Some((namespace, name)) => (Some(namespace.to_owned()), name.to_owned()),
        None => (None, object.to_owned()),
    };
    let (kind, api_version) = match kind {
        ObjectKind::Service => ("Service", "v1"),
        ObjectKind::EndpointSlice => ("EndpointSlice", "discovery.k8s.io/v1"),
        ObjectKind::Node => ("Node", "v1"),
        ObjectKind::ServiceCidr => ("ServiceCIDR", "networking.k8s.io/v1"),
    };
    Regarding { kind, api_version, namespace, name }
}
