//! Ports that change hands.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use ferrule_plan::HealthCheck;

use super::*;
use crate::events::Recorder;
use crate::gates::Gates;
use crate::http::hosting;
use crate::metrics::Metrics;

fn checks() -> (Arc<Status>, ServiceChecks) {
    let metrics = Metrics::new(&Gates::default()).expect("metrics");
    let state = (String::new(), Duration::from_secs(30));
    let status = Arc::new(Status::new(metrics, state, Recorder::nowhere()));
    let runtime = hosting::start().expect("a thread");
    let here = ListenAddresses::Only(vec![Ipv4Addr::LOCALHOST.into()]);
    let checks = ServiceChecks::new(IpFamily::V4, Arc::clone(&status), runtime, here);
    (status, checks)
}

fn set(status: &Status, service: &str, port: Option<u16>) {
    let check = port.map(|port| HealthCheck { port, local_endpoints: 1 });
    status.services().slot(IpFamily::V4).get_or_insert_default().set(&name(service), check);
}

fn name(service: &str) -> ServiceName {
    ServiceName::of("shop", service)
}

fn free_port() -> u16 {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    socket.local_addr().expect("an address").port()
}

#[test]
fn a_port_passes_from_one_service_to_another_in_one_sync() {
    let (status, mut checks) = checks();
    let ports = [free_port(), free_port()];
    for round in 0..50 {
        let (one, other) = (ports[round % 2], ports[(round + 1) % 2]);
        set(&status, "a", Some(one));
        set(&status, "b", Some(other));
        assert!(checks.sync().is_empty(), "round {round}: they swap their ports");
        set(&status, "a", None);
        set(&status, "c", Some(one));
        assert!(checks.sync().is_empty(), "round {round}: one goes, another comes");
        set(&status, "c", None);
    }
    TcpStream::connect((Ipv4Addr::LOCALHOST, ports[0])).expect("somebody listens");
}

#[test]
fn a_port_that_somebody_else_has_leaves_it_unsettled_until_it_is_free() {
    let (status, mut checks) = checks();
    let somebody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    set(&status, "a", Some(somebody.local_addr().expect("an address").port()));
    assert_eq!(checks.sync().len(), 1);
    assert!(checks.is_unsettled());
    drop(somebody);
    assert!(checks.sync().is_empty());
    assert!(!checks.is_unsettled());
}
