//! What goes wrong: order of writes, rejections, failures.

use ferrule_kernel::port::AddressSets as _;
use ferrule_model::{IpFamily, with_causes};

use super::Node;
use crate::IpvsOptions;
use crate::ipvs::host::try_scheduler;

const RESTRICTED: &str =
    "service svc LoadBalancer 1.2.3.4 sourceRanges 10.0.0.0/8 clusterIP 10.20.30.41 port p80 80
    endpoint svc 10.0.1.1 node b";
const ENOMEM: i32 = 12;
const EINVAL: i32 = 22;

fn at(writes: &[String], line: &str) -> usize {
    writes
        .iter()
        .position(|write| write.starts_with(line))
        .unwrap_or_else(|| panic!("no {line}: {writes:#?}"))
}

#[test]
fn an_address_is_protected_before_it_leads_anywhere() {
    let node = Node::of(RESTRICTED);
    let writes = node.kernel.take_writes();
    let order = [
        "set add KUBE-LOAD-BALANCER-SOURCE-CIDR",
        "set add KUBE-LOAD-BALANCER-FW",
        "set add KUBE-LOAD-BALANCER ",
        "set add KUBE-IPVS-IPS",
        "ipvs add 1.2.3.4:80/TCP",
        "server add 1.2.3.4:80/TCP",
        "addr add 1.2.3.4",
    ];
    let places: Vec<usize> = order.iter().map(|line| at(&writes, line)).collect();
    assert!(places.is_sorted(), "{places:?} {writes:#?}");
}

#[test]
fn an_address_that_goes_is_protected_to_the_end() {
    let mut node = Node::of(&format!("{RESTRICTED}\nservice other clusterIP 10.20.30.42 port p80 80"));
    let writes = node.then("gone service svc");
    let order = ["addr delete 1.2.3.4", "ipvs delete 1.2.3.4:80/TCP", "set delete KUBE-LOAD-BALANCER-FW"];
    let places: Vec<usize> = order.iter().map(|line| at(&writes, line)).collect();
    assert!(places.is_sorted(), "{places:?} {writes:#?}");
}

#[test]
fn a_port_that_goes_is_refused_before_its_server_is_gone() {
    let mut node = Node::of("service svc clusterIP 10.20.30.41 port a 80 port b 22");
    let writes = node.then("service svc clusterIP 10.20.30.41 port a 80");
    assert_eq!(writes, ["set delete KUBE-CLUSTER-IP 10.20.30.41,tcp:22", "ipvs delete 10.20.30.41:22/TCP"]);
}

#[test]
fn a_load_balancer_whose_restriction_is_rejected_is_not_served() {
    let mut node = Node::unsynced(IpFamily::V4, "", RESTRICTED, IpvsOptions::default());
    node.kernel.reject("set add KUBE-LOAD-BALANCER-FW", 1, EINVAL);
    let report = node.verify();
    assert_eq!(node.servers(), ["10.20.30.41:80/TCP: 10.0.1.1:80"]);
    assert_eq!(report.rejected.len(), 1, "{report:?}");
    assert!(node.set("KUBE-LOAD-BALANCER").is_empty(), "a listener of the host would answer in its place");
    assert_eq!(node.addresses(), ["10.20.30.41"]);
    let report = node.verify();
    assert_eq!((node.servers().len(), report.rejected.len()), (2, 0), "it is tried again");
}

#[test]
fn an_address_whose_other_ports_are_open_is_not_bound() {
    let mut node = Node::unsynced(
        IpFamily::V4,
        "",
        "service svc clusterIP 10.20.30.41 port p80 80",
        IpvsOptions::default(),
    );
    node.kernel.reject("set add KUBE-IPVS-IPS", 1, EINVAL);
    node.verify();
    assert!(node.addresses().is_empty());
    node.verify();
    assert_eq!(node.addresses(), ["10.20.30.41"]);
}

#[test]
fn one_rejected_server_does_not_stop_the_others() {
    let mut node = Node::of("service svc clusterIP 10.20.30.41 port p80 80");
    node.kernel.reject("server add 10.20.30.41:80/TCP 10.0.1.1", 1, EINVAL);
    let report = node.try_then("endpoint svc 10.0.1.1 node b\nendpoint svc 10.0.1.2 node b").unwrap();
    assert_eq!(node.servers(), ["10.20.30.41:80/TCP: 10.0.1.2:80"]);
    assert_eq!(report.rejected[0].what, "real server 10.0.1.1:80 of 10.20.30.41:80/TCP");
    node.verify();
    assert_eq!(node.servers(), ["10.20.30.41:80/TCP: 10.0.1.1:80, 10.0.1.2:80"]);
}

#[test]
fn after_a_failure_the_next_sync_does_what_it_takes() {
    for kind in ["set add", "ipvs add", "server add", "addr add"] {
        let mut node = Node::of("service old clusterIP 10.20.30.40 port p80 80");
        node.kernel.reject(kind, 1, ENOMEM);
        let facts =
            "service svc clusterIP 10.20.30.41 port p80 80\nendpoint svc 10.0.1.1 node b\ngone service old";
        assert!(node.try_then(facts).is_err(), "{kind}");
        node.try_then("endpoint svc 10.0.1.2 node b").unwrap();
        assert_eq!(node.servers(), ["10.20.30.41:80/TCP: 10.0.1.1:80, 10.0.1.2:80"], "{kind}");
        assert_eq!((node.addresses(), node.diff().len()), (vec!["10.20.30.41".to_owned()], 0), "{kind}");
    }
}

#[test]
fn without_rules_nothing_is_opened() {
    let mut node = Node::unsynced(IpFamily::V4, "", RESTRICTED, IpvsOptions::default());
    node.tables.break_writes(true);
    let error = node.try_verify().unwrap_err();
    assert_eq!(error.findings.samples.len(), 1, "it is counted");
    assert!(node.servers().is_empty() && node.addresses().is_empty());
    node.tables.break_writes(false);
    node.verify();
    assert_eq!(node.servers().len(), 2);
}

#[test]
fn a_foreign_interface_of_our_name_is_an_error() {
    let mut node = Node::unsynced(IpFamily::V4, "", RESTRICTED, IpvsOptions::default());
    node.kernel.add_link("kube-ipvs0", Some("veth"));
    let text = with_causes(&node.try_verify().unwrap_err());
    assert!(text.contains("kube-ipvs0 exists and is no dummy device but veth"), "{text}");
    assert!(node.kernel.take_writes().is_empty());
}

/// Two kinds of them: one with an address of a network, one with addresses but without the mode's sets.
#[test]
fn a_foreign_dummy_of_our_name_is_an_error_and_stays() {
    use ferrule_kernel::port::ServiceInterface as _;
    for has_networks in [true, false] {
        let mut node = Node::unsynced(IpFamily::V4, "", RESTRICTED, IpvsOptions::default());
        let mut kernel = node.kernel.clone();
        let link = kernel.create_dummy("kube-ipvs0").unwrap();
        if has_networks {
            kernel.add_network("kube-ipvs0");
        } else {
            kernel.change(&link, &["10.9.9.9".parse().unwrap()], &[]).unwrap();
        }
        node.kernel.take_writes();
        let text = with_causes(&node.try_verify().unwrap_err());
        assert!(text.contains("it is another program's, remove or rename it"), "{text}");
        super::departing::cut(&node);
        assert!(node.kernel.take_writes().is_empty(), "nor does clean-up touch it");
    }
}

/// Ours while we use it, whatever an operator does to it.
#[test]
fn an_interface_that_we_have_used_is_ours() {
    let mut node = Node::of(RESTRICTED);
    node.kernel.add_network("kube-ipvs0");
    node.verify();
}

#[test]
fn a_missing_module_is_named() {
    for (kind, errno, module) in [
        ("set create KUBE-CLUSTER-IP", 4098, "modprobe ip_set_hash_ipport"),
        ("set create KUBE-LOAD-BALANCER-SOURCE-CIDR", 4098, "modprobe ip_set_hash_ipportnet"),
        ("set create KUBE-NODE-PORT-TCP", 4098, "modprobe ip_set_bitmap_port"),
        ("link create", 95, "modprobe dummy"),
    ] {
        let mut node = Node::unsynced(IpFamily::V4, "", RESTRICTED, IpvsOptions::default());
        node.kernel.reject(kind, 1, errno);
        let text = with_causes(&node.try_verify().unwrap_err());
        assert!(text.contains(module), "{kind}: {text}");
        assert!(node.servers().is_empty() && node.addresses().is_empty());
    }
}

#[test]
fn a_foreign_set_of_our_name_is_an_error() {
    let mut node = Node::unsynced(IpFamily::V4, "", RESTRICTED, IpvsOptions::default());
    let mut spec = crate::ipvs::sets::specs(IpFamily::V4)[6].clone();
    assert_eq!(&*spec.name, "KUBE-CLUSTER-IP");
    spec.set_type = ferrule_kernel::ipset::SetType::HashIp;
    node.kernel.clone().create(&spec).unwrap();
    node.kernel.take_writes();
    let text = with_causes(&node.try_verify().unwrap_err());
    assert!(text.contains("KUBE-CLUSTER-IP exists as hash:ip, not as hash:ip,port"), "{text}");
    assert!(node.kernel.take_writes().is_empty());
}

/// Row: ipvs R50
#[test]
fn a_scheduler_that_the_kernel_lacks_is_an_error_that_names_the_module() {
    let kernel = ferrule_kernel::port::FakeIpvsKernel::new();
    assert!(try_scheduler(&mut kernel.clone(), "").is_ok());
    let trial = ["ipvs add 198.51.100.0:20000/TCP rr", "ipvs delete 198.51.100.0:20000/TCP"];
    assert_eq!(kernel.take_writes(), trial);
    let text = with_causes(&try_scheduler(&mut kernel.clone(), "twos").unwrap_err());
    assert!(text.contains("modprobe ip_vs_twos"), "{text}");
    for request in ["ipvs list", "ipvs add", "ipvs delete"] {
        kernel.reject(request, 1, EINVAL);
        assert!(try_scheduler(&mut kernel.clone(), "rr").is_err(), "{request}");
    }
}

/// `twos` is a module of Linux 5.13 and later that Debian does not build.
#[test]
fn every_scheduler_of_linux_can_be_used_and_a_missing_one_is_named() {
    let all = ["rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sh", "dh", "mh", "sed", "nq", "fo", "ovf", "twos"];
    for scheduler in all {
        let mut node = Node::unsynced(
            IpFamily::V4,
            "",
            RESTRICTED,
            IpvsOptions { scheduler: scheduler.to_owned(), ..IpvsOptions::default() },
        );
        node.kernel.add_scheduler(scheduler);
        try_scheduler(&mut node.kernel.clone(), scheduler).unwrap();
        node.verify();
        let is_used = |write: &String| write.starts_with(&format!("ipvs add 1.2.3.4:80/TCP {scheduler}"));
        assert!(node.kernel.take_writes().iter().any(is_used), "{scheduler}");
        let without = ferrule_kernel::port::FakeIpvsKernel::new();
        without.remove_scheduler(scheduler);
        let text = with_causes(&try_scheduler(&mut without.clone(), scheduler).unwrap_err());
        assert!(text.contains(&format!("modprobe ip_vs_{scheduler})")), "{text}");
    }
}

#[test]
fn a_scheduler_in_use_is_not_tried() {
    let node = Node::of("service svc clusterIP 10.20.30.41 port p80 80");
    node.kernel.take_writes();
    try_scheduler(&mut node.kernel.clone(), "rr").unwrap();
    assert!(node.kernel.take_writes().is_empty());
}

#[test]
fn a_new_port_of_a_bound_address_is_refused_until_it_is_served() {
    let mut node = Node::of("service svc clusterIP 10.20.30.41 port a 80");
    let writes = node.then("service svc clusterIP 10.20.30.41 port a 80 port b 22");
    assert_eq!(writes, ["ipvs add 10.20.30.41:22/TCP rr", "set add KUBE-CLUSTER-IP 10.20.30.41,tcp:22"]);
}

#[test]
fn a_virtual_server_that_is_rejected_leaves_no_door_open() {
    let mut node = Node::of("service svc clusterIP 10.20.30.41 port a 80");
    node.kernel.reject("ipvs add 10.20.30.41:22", 1, EINVAL);
    node.try_then("service svc clusterIP 10.20.30.41 port a 80 port b 22").unwrap();
    assert_eq!(node.set("KUBE-CLUSTER-IP"), ["10.20.30.41,tcp:80"]);
    let report = node.try_then("endpoint svc 10.0.1.1 node b").unwrap();
    assert_eq!((report.rejected.len(), report.quarantined), (0, 1), "it is still rejected");
    node.verify();
    assert_eq!(node.set("KUBE-CLUSTER-IP").len(), 2);
}

#[test]
fn what_another_program_removed_is_noticed_by_the_next_change() {
    use ferrule_kernel::ipvs::IpvsChange;
    use ferrule_kernel::port::VirtualServers;
    let mut node = Node::of("service svc clusterIP 10.20.30.41 port a 80");
    let delete = IpvsChange::DeleteService(super::node::id("10.20.30.41:80"));
    VirtualServers::apply(&mut node.kernel.clone(), &[delete]).unwrap();
    assert!(node.try_then("endpoint svc 10.0.1.1 node b").is_err());
    node.try_then("endpoint svc 10.0.1.2 node b").unwrap();
    assert_eq!(node.servers(), ["10.20.30.41:80/TCP: 10.0.1.1:80, 10.0.1.2:80"]);
}

#[test]
fn the_trial_of_a_scheduler_leaves_a_server_in_its_place_alone() {
    use ferrule_kernel::ipvs::{IpvsChange, VirtualServer};
    use ferrule_kernel::port::VirtualServers;
    let kernel = ferrule_kernel::port::FakeIpvsKernel::new();
    let id = super::node::id("198.51.100.0:20000");
    let other = VirtualServer { id, scheduler: "wlc".into(), flags: 0, timeout: 0 };
    VirtualServers::apply(&mut kernel.clone(), &[IpvsChange::AddService(other)]).unwrap();
    try_scheduler(&mut kernel.clone(), "rr").unwrap();
    assert_eq!(kernel.clone().list().unwrap().servers.len(), 1, "and another place will do");
    for port in 20001..20020 {
        let id = super::node::id(&format!("198.51.100.0:{port}"));
        let other = VirtualServer { id, scheduler: "wlc".into(), flags: 0, timeout: 0 };
        VirtualServers::apply(&mut kernel.clone(), &[IpvsChange::AddService(other)]).unwrap();
    }
    let text = with_causes(&try_scheduler(&mut kernel.clone(), "rr").unwrap_err());
    assert!(text.contains("ipvsadm -D -t 198.51.100.0:20000"), "{text}");
}
