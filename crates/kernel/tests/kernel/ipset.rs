//! Address sets on a real kernel, seen by the `ipset` program too.

use std::net::{IpAddr, Ipv4Addr};

use crate::support::iptables_program::{run, with_iptables};
use ferrule_kernel::ipset::{BUSY, FULL, IpSets, MAX_ENTRIES, SetChange, SetEntry, SetSpec, SetType};
use ferrule_kernel::netlink::Rejection;
use ferrule_kernel::nft::Family;
use ferrule_kernel::port::AddressSets as _;
use rustix::io::Errno;

#[test]
fn sets_of_all_types_look_as_those_of_ipset() {
    with_iptables(|| {
        let mut sets = IpSets::open().unwrap();
        for family in [Family::Ip, Family::Ip6] {
            for set_type in SetType::ALL {
                let set = spec("OURS", set_type, family);
                sets.create(&set).unwrap();
                let words = match (set_type, family) {
                    (SetType::BitmapPort, _) => "range 0-65535".to_owned(),
                    (_, Family::Ip) => "family inet hashsize 1024 maxelem 65536".to_owned(),
                    (_, Family::Ip6) => "family inet6 hashsize 1024 maxelem 65536".to_owned(),
                };
                let made = format!("create THEIRS {} {words}\n", set_type.name());
                ipset_restore(&made);
                let entries = entries(set_type, family);
                change_all(&mut sets, &set, &entries, true);
                let texts: Vec<_> = entries.iter().map(|entry| format!("add THEIRS {entry}\n")).collect();
                ipset_restore(&texts.concat());
                assert_eq!(saved("OURS").replace("OURS", "THEIRS"), saved("THEIRS"), "{set:?}");
                let theirs = spec("THEIRS", set_type, family);
                // Each finds the other's set equal to its own.
                sets.create(&theirs).unwrap();
                ipset_restore(&made.replace("create", "create -exist").replace("THEIRS", "OURS"));
                for set in [&set, &theirs] {
                    let mut listed = sets.entries(set).unwrap();
                    listed.sort_unstable();
                    assert_eq!(listed, entries, "{set:?}");
                    let headers = sets.sets().unwrap();
                    let header = headers.iter().find(|header| header.name == *set.name).unwrap();
                    assert!(header.is_as(set), "{header:?}");
                    assert_eq!((header.elements as usize, header.references), (entries.len(), 0));
                    sets.destroy(&set.name).unwrap();
                }
            }
        }
        assert_eq!(sets.sets().unwrap(), []);
    });
}

#[test]
fn entries_are_added_and_deleted_in_bulk() {
    with_iptables(|| {
        let mut sets = IpSets::open().unwrap();
        let set = spec("KUBE-CLUSTER-IP", SetType::HashIpPort, Family::Ip);
        sets.create(&set).unwrap();
        let entries: Vec<_> =
            (0..5000_u32).map(|number| entry(SetType::HashIpPort, address(number))).collect();
        change_all(&mut sets, &set, &entries, true);
        change_all(&mut sets, &set, &entries, true);
        let mut listed = sets.entries(&set).unwrap();
        listed.sort_unstable();
        assert_eq!(listed, entries);
        change_all(&mut sets, &set, &entries[1..], false);
        change_all(&mut sets, &set, &entries[1..], false);
        assert_eq!(sets.entries(&set).unwrap(), entries[..1]);
    });
}

#[test]
fn one_rejected_entry_does_not_stop_the_others() {
    with_iptables(|| {
        let mut sets = IpSets::open().unwrap();
        let set = spec("KUBE-IPVS-IPS", SetType::HashIp, Family::Ip);
        let missing = spec("KUBE-6-IPVS-IPS", SetType::HashIp, Family::Ip6);
        sets.create(&set).unwrap();
        let entries = entries(SetType::HashIp, Family::Ip);
        let good = |entry: SetEntry| SetChange { set: &set, entry, add: true };
        let bad = |entry: SetEntry| SetChange { set: &missing, entry, add: true };
        let of_other_family = good(SetEntry::Ip("fd00::1".parse().unwrap()));
        let changes = [bad(entries[0]), good(entries[0]), of_other_family, good(entries[1]), bad(entries[1])];
        let outcomes = sets.apply(&changes).unwrap();
        let errors: Vec<_> = outcomes.iter().map(|outcome| outcome.as_ref().err()).collect();
        assert!(errors[0].unwrap().is(Errno::NOENT) && errors[4].unwrap().is(Errno::NOENT), "{errors:?}");
        assert_eq!((errors[1], errors[3]), (None, None));
        assert!(errors[2].is_some_and(|rejection| rejection.errno > 4096), "{errors:?}");
        assert_eq!(sets.entries(&missing).unwrap(), []);
        let mut listed = sets.entries(&set).unwrap();
        listed.sort_unstable();
        assert_eq!(listed, entries[..2]);
    });
}

#[test]
fn a_full_set_says_so() {
    with_iptables(|| {
        let mut sets = IpSets::open().unwrap();
        let set = spec("KUBE-IPVS-IPS", SetType::HashIp, Family::Ip);
        sets.create(&set).unwrap();
        let entries: Vec<_> = (0..MAX_ENTRIES + 5000).map(|number| SetEntry::Ip(address(number))).collect();
        let changes: Vec<_> =
            entries.iter().map(|entry| SetChange { set: &set, entry: *entry, add: true }).collect();
        let outcomes = sets.apply(&changes).unwrap();
        let rejected: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
        // Linux counts by regions of the hash and may let some more in.
        assert!((1..=5000).contains(&rejected.len()), "{}", rejected.len());
        assert!(rejected.iter().all(|rejection| **rejection == Rejection::from_errno(FULL)));
        assert_eq!(rejected[0].to_string(), "the set is full");
    });
}

#[test]
fn another_set_of_the_name_and_a_set_in_use_are_left_alone() {
    with_iptables(|| {
        let mut sets = IpSets::open().unwrap();
        ipset_restore("create KUBE-CLUSTER-IP hash:ip\ncreate KUBE-IPVS-IPS hash:ip maxelem 100\n");
        ipset_restore("create LIST list:set\nadd LIST KUBE-CLUSTER-IP\n");
        for (name, set_type) in [("KUBE-CLUSTER-IP", SetType::HashIpPort), ("KUBE-IPVS-IPS", SetType::HashIp)]
        {
            let set = spec(name, set_type, Family::Ip);
            let error = sets.create(&set).unwrap_err();
            assert!(error.rejection().unwrap().is(Errno::EXIST), "{error:?}");
            let headers = sets.sets().unwrap();
            assert!(headers.iter().any(|header| header.name == name && !header.is_as(&set)), "{headers:?}");
        }
        let error = sets.destroy("KUBE-CLUSTER-IP").unwrap_err();
        assert_eq!(error.rejection().unwrap().errno, BUSY);
        let headers = sets.sets().unwrap();
        assert!(headers.iter().any(|header| header.name == "KUBE-CLUSTER-IP" && header.references == 1));
        sets.destroy("LIST").unwrap();
        sets.destroy("KUBE-CLUSTER-IP").unwrap();
        sets.destroy("KUBE-CLUSTER-IP").unwrap();
    });
}

fn spec(name: &str, set_type: SetType, family: Family) -> SetSpec {
    SetSpec { name: name.into(), set_type, family }
}

/// Some entries in order, with networks of all kinds.
fn entries(set_type: SetType, family: Family) -> Vec<SetEntry> {
    let addresses: [IpAddr; 3] = match family {
        Family::Ip => ["10.0.0.1", "10.0.0.2", "198.51.100.7"],
        Family::Ip6 => ["fd00::1", "fd00::2", "2001:db8::7"],
    }
    .map(|text| text.parse().unwrap());
    let mut entries: Vec<_> = addresses.iter().map(|address| entry(set_type, *address)).collect();
    if let Some(SetEntry::IpPortNet { ip, protocol, port, .. }) = entries.first().copied() {
        let nets = match family {
            Family::Ip => ["10.1.2.3/32", "10.2.0.0/16", "128.0.0.0/1"],
            Family::Ip6 => ["fd01::3/128", "fd02::/64", "8000::/1"],
        };
        let nets = nets.map(|text| text.parse().unwrap());
        entries.extend(nets.map(|net| SetEntry::IpPortNet { ip, protocol, port, net }));
    }
    entries.sort_unstable();
    entries.dedup();
    entries
}

fn entry(set_type: SetType, ip: IpAddr) -> SetEntry {
    let (protocol, port) = (6, 80);
    match set_type {
        SetType::HashIp => SetEntry::Ip(ip),
        SetType::HashIpPort => SetEntry::IpPort { ip, protocol, port },
        SetType::HashIpPortIp => SetEntry::IpPortIp { ip, protocol: 17, port, ip2: ip },
        SetType::HashIpPortNet => SetEntry::IpPortNet { ip, protocol: 132, port, net: ip.into() },
        SetType::BitmapPort => SetEntry::Port(30000),
    }
}

fn address(number: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0a00_0000 + number + 1).into()
}

fn change_all(sets: &mut IpSets, set: &SetSpec, entries: &[SetEntry], add: bool) {
    let changes: Vec<_> = entries.iter().map(|entry| SetChange { set, entry: *entry, add }).collect();
    let outcomes = sets.apply(&changes).unwrap();
    assert_eq!(outcomes, vec![Ok(()); entries.len()]);
}

/// The set as `ipset save` prints it, without what depends on chance.
fn saved(name: &str) -> String {
    let output = run("ipset", &["-sorted", "save", name], "");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let is_random = |word: &str, before: &str| before == "initval" || word == "initval";
    let line = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        let before = std::iter::once(&"").chain(&words);
        let kept = words.iter().zip(before).filter(|(word, before)| !is_random(word, before));
        kept.map(|(word, _)| *word).collect::<Vec<_>>().join(" ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn ipset_restore(text: &str) {
    let output = run("ipset", &["restore"], text);
    assert!(output.status.success(), "{output:?} of {text}");
}
