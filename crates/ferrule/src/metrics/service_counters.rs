//! Connections for each Service port and endpoint, if they are counted: the newest reading at each scrape.

use std::sync::Arc;

use ferrule_backends::counters::{CounterReading, SharedReading, Traffic};
use ferrule_model::{ServicePortName, with_causes};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGauge, Opts, Result};
use tracing::error;

const SERVICE: [&str; 4] = ["namespace", "service", "port", "protocol"];
const ENDPOINT: [&str; 5] = ["namespace", "service", "port", "protocol", "endpoint"];

/// Reads the counters at each scrape.
pub(super) struct ServiceCounters {
    reading: Arc<SharedReading>,
    /// Stay empty; they describe the series.
    empty: Series,
}

/// All series of one scrape.
struct Series {
    connections: IntCounterVec,
    packets: IntCounterVec,
    bytes: IntCounterVec,
    endpoint_connections: IntCounterVec,
    endpoint_packets: IntCounterVec,
    endpoint_bytes: IntCounterVec,
    omitted: IntGauge,
}

impl ServiceCounters {
    pub(super) fn new(reading: Arc<SharedReading>) -> Result<Self> {
        Ok(Self { reading, empty: Series::new()? })
    }
}

impl Collector for ServiceCounters {
    fn desc(&self) -> Vec<&Desc> {
        self.empty.collectors().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let problem = match self.reading.get() {
            Ok(reading) => match Series::of(&reading) {
                Ok(series) => return series.families(),
                Err(error) => with_causes(&error),
            },
            Err(error) => with_causes(&error),
        };
        error!(err = problem, "Cannot read the counters of Services, they are left out");
        Vec::new()
    }
}

impl Series {
    fn new() -> Result<Self> {
        let counters = |name: &str, help: &str, labels: &[&str]| {
            IntCounterVec::new(Opts::new(format!("ferrule_service_{name}_total"), help), labels)
        };
        let of_service = |name, help| counters(name, help, &SERVICE);
        let of_endpoint = |name, help| counters(name, help, &ENDPOINT);
        Ok(Self {
            connections: of_service("connections", "Connections to a Service port, UDP flows among them")?,
            packets: of_service("packets", "Packets of connections to a Service port, in both directions")?,
            bytes: of_service("bytes", "Bytes of connections to a Service port, in both directions")?,
            endpoint_connections: of_endpoint(
                "endpoint_connections",
                "Connections to an endpoint by way of a Service port",
            )?,
            endpoint_packets: of_endpoint("endpoint_packets", "Packets of connections to an endpoint")?,
            endpoint_bytes: of_endpoint("endpoint_bytes", "Bytes of connections to an endpoint")?,
            omitted: IntGauge::new(
                "ferrule_service_counters_omitted",
                "Service ports that are not counted because of --service-counters-limit",
            )?,
        })
    }

    fn of(reading: &CounterReading) -> Result<Self> {
        let series = Self::new()?;
        series.omitted.set(super::whole(reading.omitted));
        for service in &reading.services {
            let mut labels = labels(&service.service);
            set(&series.connections, &labels, service.connections)?;
            if let Some(Traffic { packets, bytes }) = service.traffic {
                set(&series.packets, &labels, packets)?;
                set(&series.bytes, &labels, bytes)?;
            }
            for endpoint in &service.endpoints {
                labels.push(endpoint.endpoint.to_string());
                set(&series.endpoint_connections, &labels, endpoint.connections)?;
                if let Some(Traffic { packets, bytes }) = endpoint.traffic {
                    set(&series.endpoint_packets, &labels, packets)?;
                    set(&series.endpoint_bytes, &labels, bytes)?;
                }
                labels.pop();
            }
        }
        Ok(series)
    }

    fn collectors(&self) -> [&dyn Collector; 7] {
        [
            &self.connections,
            &self.packets,
            &self.bytes,
            &self.endpoint_connections,
            &self.endpoint_packets,
            &self.endpoint_bytes,
            &self.omitted,
        ]
    }

    fn families(&self) -> Vec<MetricFamily> {
        self.collectors().into_iter().flat_map(Collector::collect).collect()
    }
}

fn labels(owner: &ServicePortName) -> Vec<String> {
    let ServicePortName { service, port, protocol } = owner;
    let protocol = protocol.to_string().to_uppercase();
    vec![service.namespace().to_owned(), service.name().to_owned(), port.to_string(), protocol]
}

fn set(counters: &IntCounterVec, labels: &[String], total: u64) -> Result<()> {
    counters.get_metric_with_label_values(labels)?.inc_by(total);
    Ok(())
}
