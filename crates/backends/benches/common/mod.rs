//! What the benchmarks of this crate share: clusters, changes of them, and clocks.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ferrule_model::{
    Change, Cluster, Conditions, Endpoint, EndpointSlice, IpFamily, PerFamily, PortName, Protocol, Service,
    ServiceName, ServicePort, SliceName, SlicePort, canonical_endpoints,
};

/// How often the kernel counts the time a thread takes, on every machine we know.
pub const MILLIS_PER_TICK: u64 = 10;

/// The time this thread has taken so far, in user space and in the kernel.
pub fn cpu_ticks() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/thread-self/stat").expect("the thread's own line");
    let fields: Vec<&str> = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let field = |at: usize| fields.get(at).and_then(|field| field.parse().ok()).unwrap_or(0);
    (field(11), field(12))
}

pub fn cluster(services: u32, endpoints: u32) -> Cluster {
    let mut cluster = Cluster::default();
    for number in 0..services {
        cluster.apply(put_service(number));
        cluster.apply(slice(number, endpoints_with(number, endpoints, None)));
    }
    cluster
}

pub fn put_service(number: u32) -> Change {
    let port =
        ServicePort { name: PortName::new("http"), protocol: Protocol::Tcp, number: 80, node_port: None };
    let service = Service {
        cluster_ips: PerFamily { v4: Some(address([10, 96], number)), v6: None },
        ports: [port].into(),
        ..Service::default()
    };
    Change::Service(name(number), Some(Arc::new(service)))
}

pub fn slice(number: u32, endpoints: Vec<Endpoint>) -> Change {
    let ports = [SlicePort { name: PortName::new("http"), protocol: Protocol::Tcp, number: 8080 }].into();
    let slice = EndpointSlice {
        service: name(number),
        family: IpFamily::V4,
        ports,
        endpoints: canonical_endpoints(endpoints),
    };
    Change::Slice(SliceName::of("bench", &format!("service-{number}")), Some(slice), None)
}

/// The first endpoints of a service, and one that was not there before.
pub fn endpoints_with(service: u32, count: u32, new: Option<u32>) -> Vec<Endpoint> {
    let old = (0..count).map(|at| address([10, 128], service * 64 + at));
    let new = new.map(|round| address([10, 64], round));
    let endpoint = |ip| Endpoint { ip, conditions: Conditions::READY, is_local: false, hints: None };
    old.chain(new).map(endpoint).collect()
}

fn name(number: u32) -> ServiceName {
    ServiceName::of("bench", &format!("service-{number}"))
}

fn address([a, b]: [u8; 2], number: u32) -> IpAddr {
    IpAddr::V4((u32::from_be_bytes([a, b, 0, 0]) + number).into())
}

pub fn print_table(rows: &[[String; 3]]) {
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or_default();
    let (first, second) = (width(0), width(1));
    println!("\n{:first$}  {:second$}  REMARK", "WORK", "MEASURED");
    for [work, measured, remark] in rows {
        println!("{work:first$}  {measured:second$}  {remark}");
    }
}

pub fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
