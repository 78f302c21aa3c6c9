//! Connections for each Service port and endpoint, as far as they are counted.

use ferrule_backends::counters::{CounterReading, ServiceCount, Traffic};

use super::{CountersAnswer, EndpointCounters, ServiceCounters};

/// Which counters are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountersQuestion {
    /// Only Services of this namespace.
    pub namespace: Option<String>,
    /// Only the Service of this name, with its namespace before it or not.
    pub service: Option<String>,
}

/// The answer where nothing is counted.
pub fn disabled() -> CountersAnswer {
    CountersAnswer { enabled: false, services: Vec::new() }
}

/// Works out the answer.
pub fn answer(reading: &CounterReading, question: &CountersQuestion) -> CountersAnswer {
    let matching = reading.services.iter().filter(|service| question.matches(service));
    CountersAnswer { enabled: true, services: matching.map(service).collect() }
}

impl CountersQuestion {
    fn matches(&self, count: &ServiceCount) -> bool {
        let name = &count.service.service;
        let in_namespace = self.namespace.as_ref().is_none_or(|namespace| namespace == name.namespace());
        let named = self.service.as_ref().is_none_or(|service| match service.split_once('/') {
            Some(parts) => parts == (name.namespace(), name.name()),
            None => service == name.name(),
        });
        in_namespace && named
    }
}

fn service(count: &ServiceCount) -> ServiceCounters {
    let (packets, bytes) = split(count.traffic);
    ServiceCounters {
        service: count.service.to_string(),
        protocol: count.service.protocol.to_string().to_uppercase(),
        connections: count.connections,
        packets,
        bytes,
        endpoints: count
            .endpoints
            .iter()
            .map(|endpoint| {
                let (packets, bytes) = split(endpoint.traffic);
                let connections = endpoint.connections;
                EndpointCounters { endpoint: endpoint.endpoint.to_string(), connections, packets, bytes }
            })
            .collect(),
    }
}

fn split(traffic: Option<Traffic>) -> (Option<u64>, Option<u64>) {
    traffic.map(|traffic| (traffic.packets, traffic.bytes)).unzip()
}
