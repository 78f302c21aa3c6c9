//! Tables that other programs wrote, by `nft` and `iptables` themselves.

use crate::support::namespace::in_namespace;
use crate::support::rules::name;
use crate::support::{iptables_program, nft_program};
use ferrule_kernel::nft::ruleset::{ElementValue, Entry, Instruction};
use ferrule_kernel::nft::{Expression, Family, NftClient};

/// Each as `family table chain hook how`.
fn obstacles(family: Family) -> Vec<String> {
    let found = NftClient::open(family).and_then(|mut client| client.obstacles()).expect("the chains");
    let line = |found: &ferrule_kernel::nft::Obstacle| {
        format!("{} {} {} {} {:?}", found.family, found.table, found.chain, found.point.name(), found.how)
    };
    found.iter().map(line).collect()
}

#[test]
fn chains_of_others_that_may_stop_packets_are_named() {
    in_namespace(|| {
        nft_program::load(
            "table inet firewall {
                chain forward { type filter hook forward priority 10; policy drop; ct state established accept; }
                chain input { type filter hook input priority 0; jump checks; }
                chain checks { tcp dport 23 goto refused; }
                chain refused { drop; }
                chain output { type filter hook output priority 0; counter accept; }
                chain unused { drop; }
            }
            table ip6 only6 {
                chain forward { type filter hook forward priority 0; policy drop; }
            }
            table arp other {
                chain input { type filter hook input priority 0; policy drop; }
            }
            table ip kube-proxy {
                chain filter { type filter hook forward priority 0; drop; }
            }",
        );
        assert_eq!(
            obstacles(Family::Ip),
            ["inet firewall input input ByRules", "inet firewall forward forward ByPolicy"]
        );
        assert_eq!(
            obstacles(Family::Ip6),
            [
                "inet firewall input input ByRules",
                "ip6 only6 forward forward ByPolicy",
                "inet firewall forward forward ByPolicy"
            ]
        );
    });
}

#[test]
fn rules_of_iptables_count_and_those_of_a_proxy_do_not() {
    iptables_program::with_iptables(|| {
        iptables_program::restore(
            Family::Ip,
            "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n:KUBE-FIREWALL - [0:0]\n\
             -A KUBE-FIREWALL -j DROP\n-A INPUT -j KUBE-FIREWALL\n-A FORWARD -p tcp -j REJECT\nCOMMIT\n",
        );
        let found = obstacles(Family::Ip);
        assert_eq!(found, ["ip filter FORWARD forward ByRules"]);
    });
}

#[test]
fn a_table_is_read_with_ranges_verdicts_and_what_is_not_known() {
    in_namespace(|| {
        nft_program::load(
            "table ip kube-proxy {
                set blocks { type ipv4_addr; flags interval; elements = { 10.0.0.0/8, 192.0.2.0-192.0.2.9 } }
                map services { type ipv4_addr . inet_proto . inet_service : verdict
                    elements = { 10.96.0.1 . tcp . 80 comment \"shop/web\" : goto target } }
                set clients { type ipv4_addr; flags dynamic,timeout; timeout 10m; }
                chain target { update @clients { ip saddr }; ip saddr != @blocks drop; limit rate 5/second accept; }
                chain nat { type nat hook prerouting priority -100; policy drop; ip daddr . meta l4proto . th dport vmap @services; }
            }",
        );
        let ruleset = NftClient::open(Family::Ip).and_then(|mut client| client.ruleset());
        let ruleset = ruleset.expect("the table").expect("there is one");
        let blocks = &ruleset.sets[&name("blocks")];
        let has = |ip: [u8; 4]| blocks.find(&ip).is_some();
        assert_eq!(
            [
                [9, 255, 255, 255],
                [10, 0, 0, 0],
                [10, 255, 255, 255],
                [11, 0, 0, 0],
                [192, 0, 2, 9],
                [192, 0, 2, 10]
            ]
            .map(has),
            [false, true, true, false, true, false]
        );
        let key = [10, 96, 0, 1, 6, 0, 0, 0, 0, 80, 0, 0];
        assert!(
            matches!(ruleset.sets[&name("services")].find(&key), Some(ElementValue::To(_))),
            "a comment does no harm"
        );
        let clients = &ruleset.sets[&name("clients")];
        assert_eq!((clients.is_dynamic, clients.timeout_millis), (true, Some(600_000)));
        let rules = &ruleset.chains[&name("target")].rules;
        let written = Expression::CountIn { set: name("clients"), key: 1 };
        assert_eq!(rules[0].last(), Some(&Instruction::Known(written)));
        assert!(rules[1].contains(&Instruction::NotIn { set: name("blocks"), from: 1 }));
        assert!(matches!(rules[2][0], Instruction::Other(ref what) if what == "limit"), "{:?}", rules[2]);
        let nat = &ruleset.chains[&name("nat")];
        assert!(matches!(nat.entry, Entry::Hook { drops: true, .. }), "{nat:?}");
        assert!(matches!(
            nat.rules[0].last(),
            Some(Instruction::Known(Expression::Lookup { to: Some(0), .. }))
        ));
    });
}
