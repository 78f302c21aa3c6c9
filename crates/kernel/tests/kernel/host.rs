//! Events, flows, addresses, settings and probes on a real kernel.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::namespace::in_namespace;
use crate::support::nft_program;
use crate::support::rules::{chain, name, steps};
use crate::support::skeleton::Skeleton;
use ferrule_kernel::conntrack::{Conntrack, FlowFilter, FlowQuery, TCP, UDP};
use ferrule_kernel::netlink::{MessageHeader, Protocol, Socket, Writer};
use ferrule_kernel::nft::{
    CommitError, Family, InjectedFault, NftChange, NftClient, NftNotifications, NftWatch, TABLE, Transaction,
};
use ferrule_kernel::port::{DryRun, Faults, Faulty, NftReader as _, NftTables};
use ferrule_kernel::probe::{self, ProbeError};
use ferrule_kernel::{interfaces, sysctl};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::CapabilitySet;

#[test]
fn changes_are_told_with_who_made_them() {
    in_namespace(|| {
        let mut watch = NftWatch::open().unwrap();
        let mut client = NftClient::open(Family::Ip).unwrap();
        let committed = client.commit(&Skeleton::new(Family::Ip).transaction()).unwrap();
        let NftNotifications::Received(events) = watch.read().unwrap() else { panic!("missed some") };
        assert!(events.iter().all(|event| event.portid == client.portid()));
        assert!(events.iter().any(|event| event.change == NftChange::Rule(name("pool-3"))));
        let last = events.last().unwrap();
        let own = u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).ok();
        assert!(
            matches!(&last.change, NftChange::Generation { id, process, .. } if *id == committed.generation && *process == own),
            "{last:?}"
        );

        nft_program::run(&["flush", "chain", "ip", TABLE, "pool-3"], "");
        let NftNotifications::Received(events) = watch.read().unwrap() else { panic!("missed some") };
        assert!(events.iter().all(|event| event.portid != client.portid()));
        let flushed = &events[0];
        assert_eq!((flushed.family, flushed.removed), (Some(Family::Ip), true));
        assert_eq!(flushed.table, Some(name(TABLE)));
        assert_eq!(flushed.change, NftChange::Rule(name("pool-3")));
        let last = events.last().unwrap();
        assert!(
            matches!(&last.change, NftChange::Generation { process_name: Some(name), .. } if name == "nft"),
            "{last:?}"
        );
    });
}

#[test]
fn udp_flows_are_listed_and_deleted() {
    in_namespace(|| {
        loopback_up();
        nft_program::load(
            "table inet t { chain c { type filter hook output priority 0; ct state new accept; }; }",
        );
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.send_to(b"x", server.local_addr().unwrap()).unwrap();
        let mut conntrack = Conntrack::open().unwrap();
        let listed = conntrack.flows(Family::Ip, UDP).unwrap();
        assert!(!listed.interrupted);
        let [flow] = &listed.items[..] else { panic!("{listed:?}") };
        assert_eq!(flow.original.source, client.local_addr().unwrap());
        assert_eq!(flow.original.destination, server.local_addr().unwrap());
        assert_eq!(flow.reply.source, server.local_addr().unwrap());
        assert_eq!(conntrack.flows(Family::Ip, TCP).unwrap().items, []);
        assert_eq!(conntrack.flows(Family::Ip6, UDP).unwrap().items, []);
        for _ in 0..2 {
            conntrack.delete(flow).unwrap();
            assert_eq!(conntrack.flows(Family::Ip, UDP).unwrap().items, []);
        }
    });
}

#[test]
fn attempts_to_connect_are_told_from_connections() {
    in_namespace(|| {
        loopback_up();
        nft_program::load(
            "table ip t { chain c { type filter hook input priority 0; ct state new tcp dport 10 drop; }; }",
        );
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let connected = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        let nobody = SocketAddr::from(([127, 0, 0, 1], 10));
        TcpStream::connect_timeout(&nobody, Duration::from_millis(1)).unwrap_err();
        let mut conntrack = Conntrack::open().unwrap();
        let all = conntrack.flows(Family::Ip, TCP).unwrap().items;
        assert!(all.iter().any(|flow| flow.original.source == connected.local_addr().unwrap()), "{all:?}");
        let attempts = conntrack
            .some_flows(
                FlowQuery { family: Family::Ip, protocol: TCP, filter: FlowFilter::Unreplied },
                |_| true,
            )
            .unwrap()
            .items;
        let to: Vec<_> = attempts.iter().map(|flow| flow.original.destination).collect();
        assert_eq!(to, [nobody]);
    });
}

#[test]
fn addresses_of_interfaces_are_listed_and_their_changes_told() {
    in_namespace(|| {
        let mut watch = interfaces::AddressWatch::open().unwrap();
        assert_eq!(interfaces::addresses().unwrap(), []);
        assert!(!watch.changed().unwrap());
        loopback_up();
        ip(&["address", "add", "192.0.2.1", "peer", "192.0.2.2", "dev", "lo"]);
        wait_until_readable(&watch);
        assert!(watch.changed().unwrap());
        let listed = interfaces::addresses().unwrap();
        for wanted in [
            IpAddr::from(Ipv4Addr::LOCALHOST),
            IpAddr::from(Ipv6Addr::LOCALHOST),
            IpAddr::from(Ipv4Addr::new(192, 0, 2, 1)),
        ] {
            assert!(listed.iter().any(|listed| listed.address == wanted), "{wanted} in {listed:?}");
        }
        assert_eq!(interfaces::names().unwrap()[&listed[0].interface], "lo");
    });
}

#[test]
fn settings_are_read_and_written() {
    in_namespace(|| {
        assert_eq!(sysctl::read("net/ipv4/conf/lo/route_localnet").unwrap(), "0");
        sysctl::ensure("net/ipv4/conf/lo/route_localnet", "1").unwrap();
        assert_eq!(sysctl::read("net/ipv4/conf/lo/route_localnet").unwrap(), "1");
        let error = sysctl::read("net/nothing").unwrap_err();
        assert_eq!(error.to_string(), "reading /proc/sys/net/nothing");
    });
}

#[test]
fn a_probe_finds_a_usable_kernel_and_changes_nothing() {
    in_namespace(|| {
        let mut client = NftClient::open(Family::Ip).unwrap();
        let before = client.generation().unwrap();
        let findings = probe::probe(TABLE);
        assert!(findings.ipv4.is_ok() && findings.ipv6.is_ok() && findings.conntrack.is_ok(), "{findings:?}");
        assert!(findings.kernel.contains('.'));
        assert_eq!(client.generation().unwrap(), before);
        assert_eq!(client.tables().unwrap(), []);
    });
}

#[test]
fn a_probe_without_the_right_says_what_to_do() {
    in_namespace(|| {
        let mut sets = rustix::thread::capabilities(None).unwrap();
        sets.effective.remove(CapabilitySet::NET_ADMIN);
        rustix::thread::set_capabilities(None, sets).unwrap();
        let findings = probe::probe(TABLE);
        let error = findings.ipv4.unwrap_err();
        assert!(matches!(error, ProbeError::NotPermitted { .. }), "{error:?}");
        assert!(error.to_string().contains("CAP_NET_ADMIN"), "{error}");
        assert!(matches!(findings.conntrack, Err(ProbeError::NotPermitted { .. })));
    });
}

/// Can only fail where `scripts/vm` says that the modules are not loaded yet.
#[test]
fn a_probe_without_nf_tables_names_the_module() {
    if std::env::var_os("FERRULE_TEST_WITHOUT_NF_TABLES").is_none() {
        return;
    }
    in_namespace(|| {
        let findings = probe::probe(TABLE);
        for (found, module) in [
            (findings.ipv4, "nf_tables"),
            (findings.ipv6, "nf_tables"),
            (findings.conntrack, "nf_conntrack_netlink"),
        ] {
            let error = found.unwrap_err();
            assert!(matches!(error, ProbeError::Missing { .. }), "{error:?}");
            assert!(error.to_string().contains(&format!("load the module {module} ")), "{error}");
            assert!(error.to_string().contains(&findings.kernel), "{error}");
        }
    });
}

#[test]
fn a_probe_names_the_owner_of_our_table() {
    in_namespace(|| {
        let owner = owner_of_our_table();
        let findings = probe::probe(TABLE);
        let port = owner.portid();
        assert!(
            matches!(findings.ipv4, Err(ProbeError::Owned { owner, .. }) if owner == port),
            "{:?}",
            findings.ipv4
        );
        assert!(findings.ipv6.is_ok());
        let mut change = Transaction::new();
        change.add_table().delete_table();
        let error = NftClient::open(Family::Ip).unwrap().commit(&change).unwrap_err();
        assert!(matches!(&error, CommitError::Owned { owner, .. } if *owner == port), "{error:?}");
        drop(owner);
        // The kernel clears up behind a closed socket in its own time.
        let mut client = NftClient::open(Family::Ip).unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while client.table().unwrap().is_some() {
            assert!(Instant::now() < deadline, "the table outlives its owner");
            std::thread::yield_now();
        }
    });
}

#[test]
fn commits_fail_on_purpose_before_or_after() {
    in_namespace(|| {
        let client = NftClient::open(Family::Ip).unwrap();
        let mut kernel = Faulty::new(client, Faults { before: 300, after: 300 }, 1);
        let (mut before, mut after, mut fine) = (0, 0, 0);
        for number in 0..200 {
            let mut transaction = Transaction::new();
            let chain = chain(&format!("c{number}"), vec![]);
            transaction.add_table().add_chain(chain.clone());
            let committed = kernel.commit(&transaction);
            let there = kernel.chains().unwrap().iter().any(|seen| seen.name == chain.name);
            match committed {
                Ok(_) if there => fine += 1,
                Err(CommitError::Injected(InjectedFault::After)) if there => after += 1,
                Err(CommitError::Injected(InjectedFault::Before)) if !there => before += 1,
                other => panic!("{other:?}, there: {there}"),
            }
        }
        assert!(before > 30 && after > 30 && fine > 30, "{before} {after} {fine}");
    });
}

#[test]
fn a_dry_run_prints_and_writes_nothing() {
    in_namespace(|| {
        let client = NftClient::open(Family::Ip6).unwrap();
        let mut dry_run = DryRun::new(client, Vec::new());
        dry_run.commit(&Skeleton::new(Family::Ip6).transaction()).unwrap();
        let mut more = Transaction::new();
        more.delete_element(&name("services"), [1, 2, 3, 4][..].into());
        more.refill_chain(chain("empty", vec![steps(Family::Ip6).rule()]));
        dry_run.commit(&more).unwrap();
        assert_eq!(dry_run.table().unwrap(), None);
        let printed = String::from_utf8(dry_run.into_output()).unwrap();
        for line in [
            "ip6 add table\n",
            "ip6 add set services { ipv6_addr . inet_proto . inet_service : verdict }\n",
            "ip6 add element services fd60::a . tcp . 80 : goto cluster-3\n",
            "ip6 add element endpoints fd60::a . tcp . 80 . 1 : fdf4::5 . 8080\n",
            "ip6 add element sticky-pools fd60::a . tcp . 80 : 0x70001000\n",
            "ip6 delete element services 0x01020304\n",
            "ip6 refill chain empty\n",
        ] {
            assert!(printed.contains(line), "no {line} in\n{printed}");
        }
    });
}

/// A table that only the returned socket may change.
fn owner_of_our_table() -> Socket {
    let (begin, new_table, end) = (16, 10 << 8, 17);
    let mut socket = Socket::open(Protocol::Netfilter, &[]).unwrap();
    let mut batch = Writer::new();
    for (kind, family) in [(begin, 0), (new_table, 2), (end, 0)] {
        batch.message(MessageHeader { kind, flags: 1, sequence: 1 }, |writer| {
            writer.raw(&[family, 0, 0, if kind == new_table { 0 } else { 10 }]);
            if kind == new_table {
                writer.text(1, TABLE);
                writer.number(2, 2);
            }
        });
    }
    socket.send("making a table", batch.as_bytes()).unwrap();
    socket
}

fn loopback_up() {
    ip(&["link", "set", "lo", "up"]);
}

fn ip(arguments: &[&str]) {
    assert!(Command::new("ip").args(arguments).status().unwrap().success());
}

fn wait_until_readable(watch: &impl std::os::fd::AsFd) {
    let patience = Timespec::try_from(Duration::from_secs(5)).unwrap();
    let ready = poll(&mut [PollFd::new(watch, PollFlags::IN)], Some(&patience)).unwrap();
    assert_eq!(ready, 1, "nothing came");
}
