//! A short notation for EndpointSlices, and for the endpoints they become in the model.
//!
//! A slice is its name (`ns1/svc1-a` belongs to Service `ns1/svc1`), its ports (`http=80 dns=53/udp`) and its endpoints
//! (`10.0.1.1@host2,!R,!S,T`: where it runs and which conditions differ from a ready one).

#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeSet;
use std::sync::Arc;

use ferrule_model::{
    Change, Cluster, Conditions, IpFamily, NodeName, PortEndpoint, Service, ServiceName, Timestamp, Touched,
    TriggerTimes, merged,
};
use ferrule_watch::api;
use ferrule_watch::convert::{self, Converted};

/// The node the tests run on.
pub fn own_node() -> NodeName {
    NodeName::new("host1")
}

/// A slice in the short notation.
pub fn slice(name: &str, ports: &str, endpoints: &str) -> api::EndpointSlice {
    let (namespace, name) = name.split_once('/').expect("namespace/name");
    let (service, _) = name.rsplit_once('-').expect("service-slice");
    let mut slice = api::EndpointSlice { address_type: "IPv4".into(), ..api::EndpointSlice::default() };
    slice.metadata.namespace = namespace.into();
    slice.metadata.name = name.into();
    slice.metadata.labels.service_name = Some(service.into());
    slice.ports = ports.split_whitespace().map(port).collect();
    slice.endpoints = endpoints.split_whitespace().map(endpoint).collect();
    slice
}

fn port(word: &str) -> api::EndpointPort {
    let (name, number) = word.split_once('=').expect("name=number");
    let (number, protocol) = number.split_once('/').unwrap_or((number, "tcp"));
    api::EndpointPort {
        name: Some(name.into()),
        protocol: Some(protocol.to_ascii_uppercase()),
        port: Some(number.parse().expect("a port number")),
    }
}

fn endpoint(word: &str) -> api::Endpoint {
    let mut marks = word.split(',');
    let place = marks.next().unwrap_or_default();
    let (address, node) = place.split_once('@').map_or((place, None), |(ip, node)| (ip, Some(node)));
    let mut endpoint = api::Endpoint {
        addresses: vec![address.into()],
        node_name: node.map(str::to_string),
        ..api::Endpoint::default()
    };
    for mark in marks {
        match mark {
            "!R" => endpoint.conditions.ready = Some(false),
            "!S" => endpoint.conditions.serving = Some(false),
            "T" => endpoint.conditions.terminating = Some(true),
            other => unreachable!("unknown mark {other:?}"),
        }
    }
    endpoint
}

/// The words of several endpoints in a row: `hosts("10.0.1", 1..=3, "@host2")`.
pub fn hosts(prefix: &str, last: std::ops::RangeInclusive<u8>, marks: &str) -> String {
    last.map(|last| format!("{prefix}.{last}{marks}")).collect::<Vec<_>>().join(" ")
}

/// A cluster that takes slices.
pub struct Slices {
    pub cluster: Cluster,
    pub trigger_times: TriggerTimes,
}

impl Slices {
    /// With the Service `ns1/svc1`: what nobody's slices say touches nobody.
    pub fn new() -> Self {
        let mut cluster = Cluster::default();
        cluster.apply(Change::Service(ServiceName::new("ns1/svc1"), Some(Arc::new(Service::default()))));
        Self { cluster, trigger_times: TriggerTimes::default() }
    }

    /// As [`Slices::new`], with slices that were there before the test.
    pub fn with(slices: &[api::EndpointSlice]) -> Self {
        let mut all = Self::new();
        for slice in slices {
            all.put(slice);
        }
        all
    }

    /// Without any Service, for what is gathered about slices alone.
    pub fn since(started: Timestamp) -> Self {
        Self { cluster: Cluster::default(), trigger_times: TriggerTimes::since(started) }
    }

    /// Puts a slice that can be used as it is; says whose meaning changed.
    pub fn put(&mut self, slice: &api::EndpointSlice) -> Vec<String> {
        let Converted { change, diagnostics } = convert::endpoint_slice(slice, &own_node());
        assert_eq!(diagnostics, [], "{slice:?}");
        self.take(change)
    }

    /// Puts a slice that may be unusable; says whose meaning changed, and the complaints.
    pub fn put_bad(&mut self, slice: &api::EndpointSlice) -> (Vec<String>, Vec<String>) {
        let Converted { change, diagnostics } = convert::endpoint_slice(slice, &own_node());
        (self.take(change), diagnostics.iter().map(ToString::to_string).collect())
    }

    /// Deletes a slice; says whose meaning changed.
    pub fn delete(&mut self, slice: &api::EndpointSlice) -> Vec<String> {
        self.take(convert::endpoint_slice_deleted(&slice.metadata).change)
    }

    fn take(&mut self, change: Option<Change>) -> Vec<String> {
        let applied = self.cluster.apply(change.expect("a slice with a usable name"));
        self.trigger_times.update(applied.trigger);
        let Touched { services, node, eligibility, service_cidrs } = applied.touched;
        assert!(!node && !eligibility && !service_cidrs, "a slice is about Services");
        services.iter().map(ToString::to_string).collect()
    }

    /// The merged endpoints of a Service by port: `http/tcp: 10.0.1.1:80 10.0.1.2:80,L`.
    pub fn described(&self, service: &str) -> String {
        let Some(state) = self.cluster.service(&ServiceName::new(service)) else { return String::new() };
        let ports: BTreeSet<_> = state
            .slices(IpFamily::V4)
            .flat_map(|slice| &slice.ports)
            .map(|port| (port.name.clone(), port.protocol))
            .collect();
        let lists = ports.into_iter().filter_map(|(name, protocol)| {
            let endpoints = merged(state.slices(IpFamily::V4), &name, protocol);
            let words: Vec<String> = endpoints.iter().map(endpoint_words).collect();
            (!words.is_empty()).then(|| format!("{name}/{protocol}: {}", words.join(" ")))
        });
        lists.collect::<Vec<_>>().join("; ")
    }
}

fn endpoint_words(endpoint: &PortEndpoint<'_>) -> String {
    let Conditions { ready, serving, terminating } = endpoint.conditions;
    let marks = [(endpoint.is_local, ",L"), (!ready, ",!R"), (!serving, ",!S"), (terminating, ",T")];
    let marks: String = marks.into_iter().filter(|(holds, _)| *holds).map(|(_, mark)| mark).collect();
    format!("{}:{}{marks}", endpoint.ip, endpoint.port)
}
