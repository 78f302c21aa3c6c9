//! Ten thousand Services are as many chains, rules, sets and maps as ten: only elements grow. And `nft` can still read them.
#![allow(clippy::print_stdout, reason = "the test says what it counted")]

mod support;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::{fs, thread};

use ferrule_backends::nftables::Reconciler;
use ferrule_backends::{SyncOutcome, SyncReport, Trigger};
use ferrule_kernel::port::NftReader as _;
use ferrule_kernel::sys::enter_new_network_namespace;
use ferrule_model::{
    Change, Cluster, Conditions, Endpoint, EndpointSlice, IpFamily, NodeName, PerFamily, PortName, Protocol,
    Service, ServiceName, ServicePort, SliceName, SlicePort, SourceRanges, TrafficPolicy,
    canonical_endpoints,
};
use ferrule_plan::{NodePlan, NodeView, Quirks, plan};
use support::counting::Counting;
use support::{client, in_namespace, nft};

const FEW: u16 = 10;
const MANY: u16 = 10_000;

/// Of ten Services: four plain ones, a node port, a load balancer with source ranges, one with policy Local, one that clients
/// stick to, one without endpoints and one with an external address.
fn service(number: u16) -> Service {
    let kind = number % 10;
    let port = ServicePort {
        name: PortName::new("http"),
        protocol: Protocol::Tcp,
        number: 80,
        node_port: (4..7).contains(&kind).then_some(20_000 + number),
    };
    let external = [v4([20, 0], number), v6(0x20, number)];
    Service {
        cluster_ips: PerFamily { v4: Some(v4([10, 96], number)), v6: Some(v6(0x96, number)) },
        ports: [port].into(),
        external_ips: if kind == 9 { external.into() } else { [].into() },
        load_balancer_vips: if kind == 5 || kind == 6 { external.into() } else { [].into() },
        source_ranges: if kind == 5 {
            let ranges = ["198.51.100.0/24", "192.0.2.0/25", "2001:db8::/32"];
            SourceRanges::Only(ranges.iter().filter_map(|text| ferrule_model::parse_cidr(text)).collect())
        } else {
            SourceRanges::Anyone
        },
        external_policy: if kind == 6 { TrafficPolicy::Local } else { TrafficPolicy::Cluster },
        affinity_seconds: (kind == 7).then_some(600),
        ..Service::default()
    }
}

/// Two endpoints, the first one on this node; none for one Service in ten.
fn slice(number: u16, family: IpFamily) -> EndpointSlice {
    let endpoints = (0..2_u8).map(|at| {
        let ip = match family {
            IpFamily::V4 => v4([10, 128 + at], number),
            IpFamily::V6 => v6(0x128 + u16::from(at), number),
        };
        Endpoint { ip, conditions: Conditions::READY, is_local: at == 0, hints: None }
    });
    let endpoints = if number % 10 == 8 { Vec::new() } else { endpoints.collect() };
    let ports = [SlicePort { name: PortName::new("http"), protocol: Protocol::Tcp, number: 8080 }].into();
    EndpointSlice { service: name(number), family, ports, endpoints: canonical_endpoints(endpoints) }
}

fn plan_of(services: u16) -> NodePlan {
    let mut cluster = Cluster::default();
    for number in 0..services {
        cluster.apply(Change::Service(name(number), Some(Arc::new(service(number)))));
        for family in IpFamily::BOTH {
            let slice_name = SliceName::of("scale", &format!("s{number}-{family:?}"));
            cluster.apply(Change::Slice(slice_name, Some(slice(number, family)), None));
        }
    }
    let view = NodeView {
        quirks: Quirks::NFTABLES,
        families: IpFamily::BOTH.to_vec(),
        ..NodeView::new(NodeName::new("a"))
    };
    plan(&cluster, &view).0
}

fn name(number: u16) -> ServiceName {
    ServiceName::of("scale", &format!("s{number}"))
}

fn v4([a, b]: [u8; 2], number: u16) -> IpAddr {
    let [c, d] = number.to_be_bytes();
    Ipv4Addr::new(a, b, c, d).into()
}

fn v6(block: u16, number: u16) -> IpAddr {
    // Not zero: that is every router's address.
    Ipv6Addr::new(0xfd00, block, 0, 0, 0, 0, 1, number).into()
}

/// How many chains, rules, sets and maps, and elements a family's table has.
#[derive(Debug, PartialEq, Eq)]
struct Objects {
    chains: usize,
    rules: usize,
    sets: usize,
    elements: usize,
}

fn load(services: u16, family: IpFamily) -> Objects {
    let plan = plan_of(services);
    let plan = plan.families.get(family).expect("both families are served");
    Reconciler::new(client(family)).sync(plan, Trigger::verify()).expect("a first sync");
    let mut eyes = client(family);
    let (chains, sets) = (eyes.chains().expect("chains"), eyes.sets().expect("sets"));
    let rules = chains.iter().map(|chain| chain.object.as_ref().expect("a chain of ours").rules.len());
    let elements = sets.iter().map(|set| eyes.elements(&set.name).expect("elements").unwrap_or_default());
    let elements = elements.map(|seen| seen.elements.len()).sum();
    Objects { chains: chains.len(), rules: rules.sum(), sets: sets.len(), elements }
}

#[test]
fn ten_thousand_services_are_as_many_objects_as_ten() {
    in_namespace(|| {
        for family in IpFamily::BOTH {
            let few = load(FEW, family);
            let many = load(MANY, family);
            println!("{family:?}: {FEW} services are {few:?}, {MANY} are {many:?}");
            assert!(many.elements > few.elements * 500, "{few:?}, {many:?}");
            assert_eq!(many, Objects { elements: many.elements, ..few });
        }
    });
}

#[test]
fn a_first_start_that_ends_half_way_is_made_good_by_the_next() {
    in_namespace(|| {
        let plan = plan_of(MANY);
        let plan = plan.families.get(IpFamily::V4).expect("both families are served");
        for commits in 1..3 {
            let mut kernel = Counting::new(client(IpFamily::V4));
            kernel.commits_left = commits;
            Reconciler::new(kernel).sync(plan, Trigger::verify()).expect_err("it ends after some commits");
            let mut next = Reconciler::new(client(IpFamily::V4));
            let report = next.sync(plan, Trigger::verify()).expect("the next start");
            // What is there may be anything, so it goes as the right thing comes, which is then read back and stamped.
            assert_eq!((report.outcome, report.commits), (SyncOutcome::Created, 2));
            let found = Reconciler::new(client(IpFamily::V4)).sync(plan, Trigger::verify());
            assert_eq!(found.expect("another start"), SyncReport::default());
            next.remove_everything().expect("the table goes");
        }
    });
}

#[test]
fn nft_lists_ten_thousand_services_and_loads_its_own_listing() {
    in_namespace(|| {
        for family in IpFamily::BOTH {
            load(MANY, family);
        }
        assert!(nft(&["-j", "list", "ruleset"]).starts_with("{\"nftables\""));
        let listing = nft(&["list", "ruleset"]);
        let again = thread::spawn(move || {
            enter_new_network_namespace().expect("another namespace");
            let file = std::env::temp_dir().join(format!("ferrule-large-listing-{}", std::process::id()));
            fs::write(&file, &listing).expect("a temporary file");
            nft(&["-f", file.to_str().expect("a plain path")]);
            fs::remove_file(file).expect("the temporary file");
            sorted_lines(&nft(&["list", "ruleset"])) == sorted_lines(&listing)
        });
        let is_same = again.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        assert!(is_same, "the listing reads otherwise after it was loaded");
    });
}

/// Elements come in the order of the kernel's hash tables, each of which has a seed of its own.
fn sorted_lines(listing: &str) -> Vec<&str> {
    let parts = listing.split(['\n', ',', '{', '}']).map(str::trim);
    let mut parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    parts.sort_unstable();
    parts
}
