//! The numbers never go down, whatever becomes of the servers.

use ferrule_kernel::ipvs::{IpvsChange, RealServer, VirtualServer};
use ferrule_kernel::port::FakeIpvsKernel;
use ferrule_model::{PortName, ServiceName};

use super::*;

const VIP: &str = "10.96.0.10";
const PODS: [&str; 2] = ["10.244.1.5:8080", "10.244.1.6:8080"];

fn owner() -> ServicePortName {
    let service = ServiceName::of("shop", "web");
    ServicePortName { service, port: PortName::new("http"), protocol: Protocol::Tcp }
}

fn service() -> VirtualServerId {
    VirtualServerId { address: VIP.parse().unwrap(), protocol: 6, port: 80 }
}

fn change(owner: Option<ServicePortName>) -> SelectionChange {
    let key = FrontendKey::Address(VIP.parse().unwrap(), Protocol::Tcp, 80);
    let frontends = BTreeMap::from([((IpFamily::V4, key), owner)]);
    SelectionChange { frontends, ..SelectionChange::default() }
}

/// A virtual server with two real ones, and what counts it.
fn stand() -> (FakeIpvsKernel, IpvsCounters) {
    let mut kernel = FakeIpvsKernel::new();
    create(&mut kernel);
    let counters = IpvsCounters::new(Box::new(kernel.clone()));
    counters.follow(&change(Some(owner())));
    (kernel, counters)
}

fn create(kernel: &mut FakeIpvsKernel) {
    let server = VirtualServer { id: service(), scheduler: "rr".into(), flags: 0, timeout: 0 };
    let add = |pod: &str| IpvsChange::AddServer { service: service(), server: real(pod) };
    let changes = [IpvsChange::AddService(server), add(PODS[0]), add(PODS[1])];
    let results = VirtualServers::apply(kernel, &changes).expect("a kernel");
    assert!(results.iter().all(Result::is_ok));
}

fn real(pod: &str) -> RealServer {
    RealServer { address: pod.parse().unwrap(), weight: 1 }
}

fn delete(kernel: &mut FakeIpvsKernel, change: IpvsChange) {
    let results = VirtualServers::apply(kernel, &[change]).expect("a kernel");
    assert!(results.iter().all(Result::is_ok));
}

fn counted(counters: &IpvsCounters) -> [u64; 3] {
    let counts = counters.read(&Selected::default()).expect("a reading");
    let of = |endpoint: Option<SocketAddr>| {
        let counts = counts.iter().filter(|count| count.endpoint == endpoint);
        counts.map(|count| count.connections).sum()
    };
    [of(None), of(Some(PODS[0].parse().unwrap())), of(Some(PODS[1].parse().unwrap()))]
}

#[test]
fn what_the_kernel_counted_is_read() {
    let (kernel, counters) = stand();
    kernel.connect(service(), PODS[0].parse().unwrap(), 3);
    kernel.connect(service(), PODS[1].parse().unwrap(), 2);
    assert_eq!(counted(&counters), [5, 3, 2]);
    let counts = counters.read(&Selected::default()).expect("a reading");
    let whole = counts.iter().find(|count| count.endpoint.is_none()).expect("the virtual server");
    assert_eq!(whole.traffic, Some(Traffic { packets: 50, bytes: 5000 }));
}

#[test]
fn an_endpoint_that_went_and_came_back_goes_on() {
    let (mut kernel, counters) = stand();
    kernel.connect(service(), PODS[0].parse().unwrap(), 3);
    assert_eq!(counted(&counters), [3, 3, 0]);
    let server = PODS[0].parse().unwrap();
    delete(&mut kernel, IpvsChange::DeleteServer { service: service(), server });
    assert_eq!(counted(&counters), [3, 3, 0]);
    let added = IpvsChange::AddServer { service: service(), server: real(PODS[0]) };
    delete(&mut kernel, added);
    kernel.connect(service(), server, 4);
    assert_eq!(counted(&counters), [7, 7, 0]);
}

/// It is read once more before the mode removes it.
#[test]
fn a_service_that_was_deleted_and_made_again_goes_on() {
    let (mut kernel, counters) = stand();
    kernel.connect(service(), PODS[1].parse().unwrap(), 6);
    counters.follow(&change(None));
    delete(&mut kernel, IpvsChange::DeleteService(service()));
    create(&mut kernel);
    counters.follow(&change(Some(owner())));
    kernel.connect(service(), PODS[1].parse().unwrap(), 1);
    assert_eq!(counted(&counters), [7, 0, 7]);
}

#[test]
fn virtual_servers_that_are_not_counted_are_left_out() {
    let (kernel, counters) = stand();
    counters.follow(&change(None));
    kernel.connect(service(), PODS[0].parse().unwrap(), 3);
    assert_eq!(counted(&counters), [0, 0, 0]);
}
