//! The Events there are, with their reasons and texts.

use ferrule_backends::{Advice, Note};
use ferrule_model::{Diagnostic, NodeName, ObjectKind, Problem, ServiceName};

use super::record::{EventRecord, Regarding, Severity};
use crate::health::Moment;

/// kube-proxy's action for everything at its start.
const START: &str = "StartKubeProxy";

/// An Event without its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventTemplate {
    severity: Severity,
    reason: &'static str,
    action: &'static str,
    regarding: Regarding,
    note: String,
}

impl EventTemplate {
    /// The record of this Event at a time.
    pub fn at(self, at: Moment) -> EventRecord {
        let Self { severity, reason, action, regarding, note } = self;
        EventRecord { severity, reason, action, regarding, note, at }
    }

    fn warning(reason: &'static str, action: &'static str, regarding: Regarding, note: String) -> Self {
        Self { severity: Severity::Warning, reason, action, regarding, note }
    }
}

/// The proxy starts.
pub fn starting(node: &NodeName) -> EventTemplate {
    let (reason, regarding) = ("Starting", about_node(node));
    EventTemplate { severity: Severity::Normal, reason, action: START, regarding, note: String::new() }
}

/// A server's port cannot be bound, and the proxy exits for it.
pub fn failed_to_start_server(node: &NodeName, server: &str, problem: String) -> EventTemplate {
    let reason =
        if server == "healthz" { "FailedToStartProxierHealthcheck" } else { "FailedToStartMetricServer" };
    EventTemplate::warning(reason, START, about_node(node), problem)
}

/// The port of a Service's health checks cannot be bound.
pub fn failed_to_start_service_check(
    node: &NodeName,
    service: &ServiceName,
    port: u16,
    problem: &str,
) -> EventTemplate {
    let text = format!(
        "node {node} failed to start healthcheck {:?} on port {port}: {problem}",
        service.to_string()
    );
    let regarding = about(ObjectKind::Service, &service.to_string());
    EventTemplate::warning("FailedToStartServiceHealthcheck", "Listen", regarding, text)
}

/// What an operator should know about the proxy mode.
pub fn mode_advice(node: &NodeName, advice: Advice) -> EventTemplate {
    EventTemplate::warning(advice.reason, START, about_node(node), advice.text.to_owned())
}

/// A backend found something that an operator should know.
pub fn backend_note(node: &NodeName, reason: &'static str, found: &Note) -> EventTemplate {
    let text = match &found.detail {
        Some(detail) => format!("{} ({detail})", found.message),
        None => found.message.to_owned(),
    };
    EventTemplate::warning(reason, START, about_node(node), text)
}

/// Kernel settings could not be written.
pub fn host_setup_failed(node: &NodeName, problem: String) -> EventTemplate {
    EventTemplate::warning("FerruleKernelSettings", START, about_node(node), problem)
}

/// A field of an object is invalid. The action distinguishes classes of problems, so that each has its own Event.
pub fn invalid_field(diagnostic: &Diagnostic, own_node: &NodeName) -> EventTemplate {
    let (reason, action) = class(&diagnostic.problem);
    let regarding = match diagnostic.kind {
        ObjectKind::Node => about_node(own_node),
        kind => about(kind, &diagnostic.object),
    };
    EventTemplate::warning(reason, action, regarding, format!("{}: {}", diagnostic.field, diagnostic.problem))
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
        Problem::OverCapacity => ("FerruleEndpointsTruncated", "ReadEndpoints"),
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
        ObjectKind::Endpoints => ("Endpoints", "v1"),
        ObjectKind::Node => ("Node", "v1"),
        ObjectKind::ServiceCidr => ("ServiceCIDR", "networking.k8s.io/v1"),
    };
    Regarding { kind, api_version, namespace, name }
}
