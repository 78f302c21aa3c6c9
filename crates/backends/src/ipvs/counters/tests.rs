//! The numbers never go down, whatever becomes of the servers.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use ferrule_kernel::ipvs::{IpvsChange, RealServer, SeenRealServer, SeenVirtualServers, VirtualServer};
use ferrule_kernel::netlink::{NetlinkError, Rejection};
use ferrule_kernel::port::FakeIpvsKernel;
use ferrule_model::{PortName, ServiceName};

use super::*;
use crate::counters::Traffic;

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
    let counters = IpvsCounters::new(Box::new(kernel.clone()), Box::new(kernel.clone()));
    counters.follow(&change(Some(owner())));
    (kernel, counters)
}

fn create(kernel: &mut FakeIpvsKernel) {
    create_at(kernel, service());
}

fn create_at(kernel: &mut FakeIpvsKernel, id: VirtualServerId) {
    let server = VirtualServer { id, scheduler: "rr".into(), flags: 0, timeout: 0 };
    let add = |pod: &str| IpvsChange::AddServer { service: id, server: real(pod) };
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

/// The loop asks for nothing else: a node has thousands of others.
#[test]
fn only_virtual_servers_that_go_are_read_by_the_loop() {
    let (kernel, counters) = stand();
    kernel.take_reads();
    counters.follow(&SelectionChange::default());
    assert!(kernel.take_reads().is_empty());
    counters.follow(&change(None));
    assert_eq!(kernel.take_reads(), [format!("server list {}", service())]);
}

/// A kernel whose first listing takes as long as the test wants.
struct Slow {
    kernel: FakeIpvsKernel,
    began: Option<Sender<()>>,
    may_end: Receiver<()>,
}

impl VirtualServers for Slow {
    fn list(&mut self) -> Result<SeenVirtualServers, NetlinkError> {
        if let Some(began) = self.began.take() {
            began.send(()).expect("the test listens");
            self.may_end.recv_timeout(Duration::from_secs(30)).expect("the loop does not wait for a listing");
        }
        self.kernel.list()
    }

    fn real_servers(&mut self, service: &VirtualServerId) -> Result<Vec<SeenRealServer>, NetlinkError> {
        self.kernel.real_servers(service)
    }

    fn apply(&mut self, changes: &[IpvsChange]) -> Result<Vec<Result<(), Rejection>>, NetlinkError> {
        VirtualServers::apply(&mut self.kernel, changes)
    }
}

#[test]
fn what_goes_during_a_listing_counts_once_and_the_loop_does_not_wait() {
    let mut kernel = FakeIpvsKernel::new();
    create(&mut kernel);
    let ((began, listing), (end, may_end)) = (mpsc::channel(), mpsc::channel());
    let slow = Slow { kernel: kernel.clone(), began: Some(began), may_end };
    let counters = IpvsCounters::new(Box::new(kernel.clone()), Box::new(slow));
    counters.follow(&change(Some(owner())));
    kernel.connect(service(), PODS[0].parse().unwrap(), 5);
    thread::scope(|scope| {
        let reading = scope.spawn(|| counted(&counters));
        listing.recv().expect("a listing");
        counters.follow(&change(None));
        delete(&mut kernel, IpvsChange::DeleteService(service()));
        end.send(()).expect("the listing waits");
        assert_eq!(reading.join().expect("a reading"), [5, 5, 0]);
    });
    assert_eq!(counted(&counters), [5, 5, 0]);
    create(&mut kernel);
    counters.follow(&change(Some(owner())));
    kernel.connect(service(), PODS[1].parse().unwrap(), 1);
    assert_eq!(counted(&counters), [6, 5, 1]);
}

/// Both count for a node port by their port, and one of them is not ours.
#[test]
fn a_node_port_counts_at_addresses_of_the_host_alone() {
    let (mut kernel, counters) = stand();
    let key = (IpFamily::V4, FrontendKey::NodePort(Protocol::Tcp, 30080));
    let node: IpAddr = "192.168.0.1".parse().unwrap();
    let mut change =
        SelectionChange { frontends: BTreeMap::from([(key, Some(owner()))]), ..SelectionChange::default() };
    change.addresses.set(IpFamily::V4, BTreeSet::from([node]));
    counters.follow(&change);
    for (address, connections) in [(node, 2), ("203.0.113.9".parse().unwrap(), 40)] {
        let id = VirtualServerId { address, protocol: 6, port: 30080 };
        create_at(&mut kernel, id);
        kernel.connect(id, PODS[0].parse().unwrap(), connections);
    }
    assert_eq!(counted(&counters), [2, 2, 0]);
    // Of what goes, too.
    change = SelectionChange { frontends: BTreeMap::from([(key, None)]), ..SelectionChange::default() };
    kernel.connect(VirtualServerId { address: node, protocol: 6, port: 30080 }, PODS[0].parse().unwrap(), 1);
    counters.follow(&change);
    assert_eq!(counted(&counters), [3, 3, 0]);
}
