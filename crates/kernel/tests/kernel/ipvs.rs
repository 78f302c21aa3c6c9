//! Virtual servers on a real kernel, seen by `ipvsadm` too.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::support::ipvs_kernel::{printed, with_ipvs};
use ferrule_kernel::ipvs::{
    FirewallMark, Ipvs, IpvsChange, RealServer, Timeouts, VirtualServer, VirtualServerId,
};
use ferrule_kernel::nft::Family;
use ferrule_kernel::port::VirtualServers as _;
use rustix::io::Errno;

const SCHEDULERS: [&str; 13] =
    ["rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sh", "dh", "mh", "sed", "nq", "fo", "ovf"];

#[test]
fn virtual_and_real_servers_look_as_those_of_ipvsadm() {
    with_ipvs(|mut ipvs| {
        let tcp = server(id("10.0.0.1", 6, 80), "rr");
        let udp = server(id("10.0.0.1", 17, 53), "wrr");
        let sctp = VirtualServer { flags: 0x10, ..server(id("10.0.0.2", 132, 7), "mh") };
        let sticky = VirtualServer { flags: 0x1, timeout: 10800, ..server(id("fd00::1", 6, 80), "rr") };
        let services = [&tcp, &udp, &sctp, &sticky];
        let mut changes: Vec<_> = services.map(|service| IpvsChange::AddService(service.clone())).to_vec();
        changes.extend(
            [
                (tcp.id, "10.1.1.1:8080", 1),
                (tcp.id, "10.1.1.2:8080", 0),
                (udp.id, "10.1.1.1:5353", 1),
                (sticky.id, "[fd01::1]:8080", 1),
            ]
            .map(|(service, address, weight)| add(service, address, weight)),
        );
        accept(&mut ipvs, &changes);
        let listed = ipvs.list().unwrap();
        let mut seen: Vec<_> = listed.servers.into_iter().map(|seen| seen.server).collect();
        seen.sort_unstable();
        let mut expected: Vec<_> = services.into_iter().cloned().collect();
        expected.sort_unstable();
        assert_eq!(seen, expected);
        assert_eq!(real(&mut ipvs, tcp.id), [("10.1.1.1:8080", 1), ("10.1.1.2:8080", 0)].map(real_server));
        assert_eq!(real(&mut ipvs, sticky.id), [("[fd01::1]:8080", 1)].map(real_server));
        let all = ipvs.all_real_servers(&[udp.id, sctp.id, id("10.9.9.9", 6, 1)]).unwrap();
        assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [1, 0, 0]);
        assert!(all[0].iter().all(|server| server.forwarding == 0 && server.active == 0));
        let shown = printed("ipvsadm", &["--save", "-n"]);
        let mut shown: Vec<_> = shown.lines().map(str::trim_end).collect();
        shown.sort_unstable();
        let expected = [
            "-A --sctp-service 10.0.0.2:7 -s mh -b mh-port",
            "-A -t 10.0.0.1:80 -s rr",
            "-A -t [fd00::1]:80 -s rr -p 10800",
            "-A -u 10.0.0.1:53 -s wrr",
            "-a -t 10.0.0.1:80 -r 10.1.1.1:8080 -m -w 1",
            "-a -t 10.0.0.1:80 -r 10.1.1.2:8080 -m -w 0",
            "-a -t [fd00::1]:80 -r [fd01::1]:8080 -m -w 1",
            "-a -u 10.0.0.1:53 -r 10.1.1.1:5353 -m -w 1",
        ];
        assert_eq!(shown, expected);
    });
}

#[test]
fn servers_are_changed_and_deleted() {
    with_ipvs(|mut ipvs| {
        let service = server(id("10.0.0.1", 6, 80), "rr");
        let server = SocketAddr::from(([10, 1, 1, 1], 8080));
        accept(&mut ipvs, &[IpvsChange::AddService(service.clone()), add(service.id, "10.1.1.1:8080", 1)]);
        let changed = VirtualServer { scheduler: "wlc".into(), flags: 0x1, timeout: 7, ..service.clone() };
        let drained = RealServer { address: server, weight: 0 };
        accept(
            &mut ipvs,
            &[
                IpvsChange::SetService(changed.clone()),
                IpvsChange::SetServer { service: service.id, server: drained },
            ],
        );
        assert_eq!(ipvs.list().unwrap().servers[0].server, changed);
        assert_eq!(real(&mut ipvs, service.id), [drained]);
        accept(&mut ipvs, &[IpvsChange::SetService(service.clone())]);
        assert_eq!(ipvs.list().unwrap().servers[0].server, service);
        accept(&mut ipvs, &[IpvsChange::DeleteServer { service: service.id, server }]);
        assert_eq!(real(&mut ipvs, service.id), []);
        accept(&mut ipvs, &[IpvsChange::DeleteService(service.id)]);
        assert_eq!(ipvs.list().unwrap().servers, []);
    });
}

#[test]
fn one_rejected_change_does_not_stop_the_others() {
    with_ipvs(|mut ipvs| {
        let service = server(id("10.0.0.1", 6, 80), "rr");
        let missing = id("10.0.0.2", 6, 80);
        let address = SocketAddr::from(([10, 1, 1, 1], 8080));
        let real = RealServer { address, weight: 1 };
        let outcomes = ipvs
            .apply(&[
                IpvsChange::AddService(service.clone()),
                IpvsChange::AddService(service.clone()),
                IpvsChange::AddService(server(missing, "nothing")),
                IpvsChange::SetService(server(missing, "rr")),
                IpvsChange::DeleteService(missing),
                IpvsChange::AddServer { service: missing, server: real },
                IpvsChange::SetServer { service: service.id, server: real },
                IpvsChange::DeleteServer { service: service.id, server: address },
                add(service.id, "[fd01::1]:8080", 1),
                IpvsChange::AddServer { service: service.id, server: real },
                IpvsChange::AddServer { service: service.id, server: real },
            ])
            .unwrap();
        let errors: Vec<_> = outcomes
            .iter()
            .map(|outcome| outcome.as_ref().map_or_else(|error| error.errno, |()| 0))
            .collect();
        let (exist, noent, srch, inval) = (Errno::EXIST, Errno::NOENT, Errno::SRCH, Errno::INVAL);
        let [exist, noent, srch, inval] = [exist, noent, srch, inval].map(Errno::raw_os_error);
        assert_eq!(errors, [0, exist, noent, srch, srch, srch, noent, noent, inval, 0, exist]);
    });
}

#[test]
fn thousands_of_servers_are_written_in_bulk() {
    with_ipvs(|mut ipvs| {
        let address = |number: u32| IpAddr::from(Ipv4Addr::from_bits(0x0a60_0000 + number));
        let services: Vec<_> = (0..2000)
            .map(|number| VirtualServerId { address: address(number), protocol: 6, port: 80 })
            .collect();
        let changes: Vec<_> = services
            .iter()
            .flat_map(|id| {
                [
                    IpvsChange::AddService(server(*id, "rr")),
                    add(*id, "10.1.1.1:8080", 1),
                    add(*id, "10.1.1.2:8080", 1),
                ]
            })
            .collect();
        accept(&mut ipvs, &changes);
        assert_eq!(ipvs.list().unwrap().servers.len(), services.len());
        let all = ipvs.all_real_servers(&services).unwrap();
        assert!(all.iter().all(|servers| servers.len() == 2));
        accept(&mut ipvs, &services.into_iter().map(IpvsChange::DeleteService).collect::<Vec<_>>());
        assert_eq!(ipvs.list().unwrap().servers, []);
    });
}

#[test]
fn all_schedulers_are_there_but_one() {
    with_ipvs(|mut ipvs| {
        let services: Vec<_> = (1..)
            .zip(SCHEDULERS)
            .map(|(port, scheduler)| IpvsChange::AddService(server(id("10.0.0.1", 6, port), scheduler)))
            .collect();
        accept(&mut ipvs, &services);
    });
}

#[test]
fn services_with_a_firewall_mark_are_listed_apart() {
    with_ipvs(|mut ipvs| {
        printed("ipvsadm", &["-A", "-f", "7", "-s", "rr"]);
        printed("ipvsadm", &["-A", "-f", "8", "-6", "-s", "rr"]);
        accept(&mut ipvs, &[IpvsChange::AddService(server(id("10.0.0.1", 6, 80), "rr"))]);
        let listed = ipvs.list().unwrap();
        let marks = BTreeSet::from(
            [(Family::Ip, 7), (Family::Ip6, 8)].map(|(family, mark)| FirewallMark { family, mark }),
        );
        assert_eq!((listed.servers.len(), listed.fwmarks.into_iter().collect()), (1, marks));
    });
}

#[test]
fn timeouts_are_read_and_set() {
    with_ipvs(|mut ipvs| {
        assert_eq!(ipvs.timeouts().unwrap(), Timeouts { tcp: 900, tcp_fin: 120, udp: 300 });
        ipvs.set_timeouts(&Timeouts { tcp: 123, tcp_fin: 0, udp: 67 }).unwrap();
        assert_eq!(ipvs.timeouts().unwrap(), Timeouts { tcp: 123, tcp_fin: 120, udp: 67 });
        assert_eq!(ipvs.version().unwrap().to_string(), "1.2.1");
    });
}

fn id(address: &str, protocol: u8, port: u16) -> VirtualServerId {
    VirtualServerId { address: address.parse().unwrap(), protocol, port }
}

fn server(id: VirtualServerId, scheduler: &str) -> VirtualServer {
    VirtualServer { id, scheduler: scheduler.into(), flags: 0, timeout: 0 }
}

fn add(service: VirtualServerId, address: &str, weight: u32) -> IpvsChange {
    IpvsChange::AddServer { service, server: real_server((address, weight)) }
}

fn real_server((address, weight): (&str, u32)) -> RealServer {
    RealServer { address: address.parse().unwrap(), weight }
}

fn real(ipvs: &mut Ipvs, service: VirtualServerId) -> Vec<RealServer> {
    let mut servers: Vec<_> =
        ipvs.real_servers(&service).unwrap().into_iter().map(|seen| seen.server).collect();
    servers.sort_unstable();
    servers
}

fn accept(ipvs: &mut Ipvs, changes: &[IpvsChange]) {
    let outcomes = ipvs.apply(changes).unwrap();
    for (change, outcome) in changes.iter().zip(outcomes) {
        assert_eq!(outcome, Ok(()), "{change:?}");
    }
}
