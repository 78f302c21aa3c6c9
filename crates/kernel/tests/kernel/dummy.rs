//! The interface that holds addresses, on a real kernel, and notifications of it.

use std::net::{IpAddr, Ipv4Addr};

use crate::support::ipvs_kernel::{printed, with_dummies};
use crate::support::namespace::in_namespace;
use ferrule_kernel::dummy::{Link, LinkClient};
use ferrule_kernel::interfaces::{AddressWatch, InterfaceEvents, InterfaceWatch};
use ferrule_kernel::port::ServiceInterface as _;
use rustix::io::Errno;

const NAME: &str = "kube-ipvs0";

#[test]
fn a_dummy_stays_down_and_holds_addresses() {
    with_dummies(|mut links| {
        assert_eq!(links.find(NAME).unwrap(), None);
        let link = links.create_dummy(NAME).unwrap();
        assert_eq!(links.find(NAME).unwrap().as_ref(), Some(&link));
        assert!(link.is_dummy());
        assert!(links.create_dummy(NAME).unwrap_err().rejection().unwrap().is(Errno::EXIST));
        let added = addresses(["10.96.0.1", "10.96.0.10", "169.254.20.10", "fd00:96::1", "fd00:96::2001"]);
        for _ in 0..2 {
            assert_eq!(links.change(&link, &added, &[]).unwrap(), []);
            assert_eq!(seen(&mut links, &link), added);
        }
        let shown = printed("ip", &["address", "show", NAME]);
        assert!(shown.contains("<BROADCAST,NOARP> mtu 1500 qdisc noop state DOWN"), "{shown}");
        for line in ["inet 10.96.0.1/32 scope global kube-ipvs0\n", "inet6 fd00:96::2001/128 scope global"] {
            assert!(shown.contains(line), "no {line} in {shown}");
        }
        assert!(!shown.contains("nodad") && !shown.contains("qlen"), "{shown}");
        for _ in 0..2 {
            assert_eq!(links.change(&link, &[], &added[1..]).unwrap(), []);
            assert_eq!(seen(&mut links, &link), added[..1]);
        }
        links.delete(&link).unwrap();
        links.delete(&link).unwrap();
        assert_eq!(links.find(NAME).unwrap(), None);
        let refused = links.change(&link, &added[..1], &[]).unwrap();
        assert!(refused[0].1.is(Errno::NODEV), "{refused:?}");
    });
}

#[test]
fn addresses_are_added_and_removed_in_bulk() {
    with_dummies(|mut links| {
        let link = links.create_dummy(NAME).unwrap();
        let many: Vec<IpAddr> =
            (1..=2000).map(|number| Ipv4Addr::from_bits(0x0a60_0000 + number).into()).collect();
        assert_eq!(links.change(&link, &many, &[]).unwrap(), []);
        assert_eq!(seen(&mut links, &link), many);
        let impossible = [IpAddr::from(Ipv4Addr::new(10, 0, 0, 1)), "ff02::1".parse().unwrap()];
        let refused = links.change(&link, &impossible, &many[1..]).unwrap();
        assert_eq!(refused.iter().map(|(address, _)| *address).collect::<Vec<_>>(), impossible[1..]);
        assert_eq!(seen(&mut links, &link), [impossible[0], many[0]]);
    });
}

#[test]
fn what_becomes_of_the_interface_is_told() {
    with_dummies(|mut links| {
        let mut watch = InterfaceWatch::open(NAME).unwrap();
        let mut others = AddressWatch::open_ignoring(NAME).unwrap();
        assert_eq!(watch.receive().unwrap(), InterfaceEvents::default());
        for _ in 0..2 {
            let link = links.create_dummy(NAME).unwrap();
            let list = addresses(["10.96.0.1", "fd00:96::1"]);
            links.change(&link, &list, &[]).unwrap();
            assert_eq!(told(&mut watch), (list.clone(), vec![], false));
            links.change(&link, &[], &list[..1]).unwrap();
            assert_eq!(told(&mut watch).1, list[..1]);
            links.delete(&link).unwrap();
            let (_, removed, is_gone) = told(&mut watch);
            assert!(is_gone && removed == list[1..], "{removed:?}");
            assert!(!others.changed().unwrap());
        }
        let other = links.create_dummy("other").unwrap();
        links.change(&other, &addresses(["192.0.2.1"]), &[]).unwrap();
        assert_eq!(watch.receive().unwrap(), InterfaceEvents::default());
        assert!(others.changed().unwrap());
    });
}

/// Also where there are no dummies: any interface can be watched, and an address be given to it.
#[test]
fn addresses_of_one_interface_are_told_or_ignored() {
    in_namespace(|| {
        let mut watch = InterfaceWatch::open("lo").unwrap();
        let mut others = AddressWatch::open_ignoring("lo").unwrap();
        let mut links = LinkClient::open().unwrap();
        let link = links.find("lo").unwrap().unwrap();
        assert_eq!(link.kind, None);
        let list = addresses(["10.96.0.1", "fd00:96::1"]);
        for _ in 0..2 {
            assert_eq!(links.change(&link, &list, &[]).unwrap(), []);
        }
        assert_eq!(seen(&mut links, &link), list);
        for _ in 0..2 {
            assert_eq!(links.change(&link, &[], &list).unwrap(), []);
        }
        assert!(seen(&mut links, &link).is_empty());
        assert_eq!(told(&mut watch), (list.clone(), list, false));
        assert!(!others.changed().unwrap());
        assert!(AddressWatch::open_ignoring("none").is_ok());
    });
}

/// Added and removed addresses, and whether the interface has gone. An IPv6 address may be told again when the kernel has
/// looked for duplicates of it.
fn told(watch: &mut InterfaceWatch) -> (Vec<IpAddr>, Vec<IpAddr>, bool) {
    let mut events = watch.receive().unwrap();
    assert!(!events.lost);
    events.added.dedup();
    (events.added, events.removed, events.link_gone)
}

fn addresses<const N: usize>(texts: [&str; N]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn seen(links: &mut LinkClient, link: &Link) -> Vec<IpAddr> {
    let mut seen = links.addresses(link).unwrap();
    seen.sort_unstable();
    seen
}
