//! The kernel in memory behaves as Linux does.

use rustix::io::Errno;

use super::*;
use crate::ipset::{FULL, SetChange, SetEntry, SetSpec, SetType};
use crate::ipvs::{IpvsChange, RealServer, VirtualServer};
use crate::nft::Family;
use crate::port::{AddressSets, ServiceInterface, VirtualServers};

fn service() -> VirtualServer {
    let id = VirtualServerId { address: "10.0.0.1".parse().unwrap(), protocol: 6, port: 80 };
    VirtualServer { id, scheduler: "rr".into(), flags: 0, timeout: 0 }
}

fn errors(outcomes: &[Result<(), Rejection>]) -> Vec<i32> {
    outcomes.iter().map(|outcome| outcome.as_ref().err().map_or(0, |rejection| rejection.errno)).collect()
}

#[test]
fn virtual_servers_are_kept_and_rejected_as_in_linux() {
    let mut kernel = FakeIpvsKernel::new();
    let (service, server) = (service(), "10.1.1.1:8080".parse().unwrap());
    let add = |weight| IpvsChange::AddServer {
        service: service.id,
        server: RealServer { address: server, weight },
    };
    let unknown = VirtualServer { scheduler: "twos".into(), ..service.clone() };
    let outcomes = VirtualServers::apply(
        &mut kernel,
        &[
            add(1),
            IpvsChange::AddService(unknown),
            IpvsChange::AddService(service.clone()),
            IpvsChange::AddService(service.clone()),
            IpvsChange::DeleteServer { service: service.id, server },
            add(1),
            add(0),
        ],
    )
    .unwrap();
    assert_eq!(errors(&outcomes), [3, 2, 0, 17, 2, 0, 17]);
    assert!(kernel.set_connections(&service.id, server, 2, 1));
    let seen = kernel.all_real_servers(&[service.id]).unwrap();
    assert_eq!((seen[0][0].active, seen[0][0].inactive, seen[0][0].server.weight), (2, 1, 1));
    let accepted: Vec<_> = kernel.take_writes().into_iter().filter(|line| !line.contains("error")).collect();
    assert_eq!(
        accepted,
        ["ipvs add 10.0.0.1:80/TCP rr", "server add 10.0.0.1:80/TCP 10.1.1.1:8080 weight 1"]
    );
}

#[test]
fn sets_are_kept_and_rejected_as_in_linux() {
    let mut kernel = FakeIpvsKernel::new();
    let set = SetSpec { name: "KUBE-IPVS-IPS".into(), set_type: SetType::HashIp, family: Family::Ip };
    let entry = |text: &str| SetEntry::Ip(text.parse().unwrap());
    kernel.create(&set).unwrap();
    kernel.create(&set).unwrap();
    let other = SetSpec { set_type: SetType::BitmapPort, ..set.clone() };
    assert!(kernel.create(&other).unwrap_err().rejection().unwrap().is(Errno::EXIST));
    assert!(kernel.set_maxelem(&set.name, 1));
    let change = |text, add| SetChange { set: &set, entry: entry(text), add };
    let changes = [change("10.0.0.1", true), change("10.0.0.1", true), change("10.0.0.2", true)];
    let outcomes = AddressSets::apply(&mut kernel, &changes).unwrap();
    assert_eq!(errors(&outcomes), [0, 0, FULL]);
    let changes = [change("10.0.0.2", false), change("fd00::1", true)];
    assert_eq!(errors(&AddressSets::apply(&mut kernel, &changes).unwrap()), [0, 4097]);
    assert_eq!(kernel.entries(&set).unwrap(), [entry("10.0.0.1")]);
    assert!(kernel.set_references(&set.name, 1));
    assert_eq!(kernel.destroy(&set.name).unwrap_err().rejection().unwrap().to_string(), "the set is in use");
    assert_eq!(kernel.writes().last().unwrap(), "set destroy KUBE-IPVS-IPS: the set is in use");
}

#[test]
fn interfaces_are_kept_as_in_linux() {
    let mut kernel = FakeIpvsKernel::new();
    assert_eq!(kernel.find("kube-ipvs0").unwrap(), None);
    let link = kernel.create_dummy("kube-ipvs0").unwrap();
    assert!(link.is_dummy());
    assert!(kernel.create_dummy("kube-ipvs0").unwrap_err().rejection().unwrap().is(Errno::EXIST));
    let (a, b) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
    assert_eq!(kernel.change(&link, &[a, b, b], &[a, a]).unwrap(), []);
    assert_eq!(kernel.addresses(&link).unwrap(), [b]);
    kernel.delete(&link).unwrap();
    kernel.delete(&link).unwrap();
    assert_ne!(kernel.create_dummy("kube-ipvs0").unwrap().index, link.index);
    assert!(kernel.change(&link, &[a], &[]).unwrap()[0].1.is(Errno::NODEV));
}

#[test]
fn the_nth_request_of_a_kind_fails_once() {
    let mut kernel = FakeIpvsKernel::new();
    kernel.reject("addr add", 2, Errno::NOBUFS.raw_os_error());
    kernel.reject("ipvs list", 1, Errno::PERM.raw_os_error());
    let link = kernel.create_dummy("kube-ipvs0").unwrap();
    let addresses = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|text| text.parse().unwrap());
    let refused = kernel.change(&link, &addresses, &[]).unwrap();
    assert_eq!(refused.iter().map(|(address, _)| *address).collect::<Vec<_>>(), [addresses[1]]);
    assert_eq!(kernel.change(&link, &addresses, &[]).unwrap(), []);
    assert!(kernel.list().is_err());
    assert!(kernel.list().is_ok());
}
