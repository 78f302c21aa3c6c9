//! What iptables mode and ipvs mode left goes, in both variants and families, and nothing of other programs.
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

mod support;

use ferrule_backends::iptables::{remove_ipvs_leftovers, remove_leftovers, remove_nat_leftovers};
use ferrule_backends::{OpenConnections, backend};
use ferrule_kernel::iptables::{AccessPolicy, IptablesCommands, RestoreText, RuleText, Saved, TableAccess};
use ferrule_kernel::port::XTables as _;
use ferrule_plan::ProxyMode;
use support::iptables::{every_program, saved, with_iptables};

/// What is not ours: a firewall, the kubelet's chains, a chain that jumps into one of ours.
const OTHERS: &str = "*filter
:KUBE-FIREWALL - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:OTHER - [0:0]
-A INPUT -j KUBE-FIREWALL
-A OUTPUT -j KUBE-FIREWALL
-A INPUT -p tcp -m tcp --dport 22 -m comment --comment \"-j KUBE-SERVICES\" -j OTHER
-A OTHER -j ACCEPT
COMMIT
*nat
:KUBE-KUBELET-CANARY - [0:0]
:CNI - [0:0]
-A POSTROUTING -j CNI
-A CNI -j RETURN
COMMIT
*mangle
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
COMMIT
";

/// What kube-proxy leaves, with the jumps of iptables mode and some of ipvs mode.
const KUBE_PROXY: &str = "*filter
:KUBE-SERVICES - [0:0]
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
:KUBE-PROXY-CANARY - [0:0]
:KUBE-IPVS-FILTER - [0:0]
-I INPUT -m conntrack --ctstate NEW -m comment --comment \"kubernetes externally-visible service portals\" -j KUBE-EXTERNAL-SERVICES
-I FORWARD -m conntrack --ctstate NEW -m comment --comment \"kubernetes externally-visible service portals\" -j KUBE-EXTERNAL-SERVICES
-I INPUT -m comment --comment \"kubernetes health check service ports\" -j KUBE-NODEPORTS
-I FORWARD -m conntrack --ctstate NEW -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES
-I OUTPUT -m conntrack --ctstate NEW -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES
-I FORWARD -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD
-I INPUT -m conntrack --ctstate NEW -m comment --comment \"kubernetes load balancer firewall\" -j KUBE-PROXY-FIREWALL
-I OUTPUT -m conntrack --ctstate NEW -m comment --comment \"kubernetes load balancer firewall\" -j KUBE-PROXY-FIREWALL
-I FORWARD -m conntrack --ctstate NEW -m comment --comment \"kubernetes load balancer firewall\" -j KUBE-PROXY-FIREWALL
-I INPUT -m comment --comment \"kubernetes ipvs access filter\" -j KUBE-IPVS-FILTER
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
COMMIT
*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-PROXY-CANARY - [0:0]
:KUBE-SVC-67NZLRHBNDSAWJRO - [0:0]
:KUBE-SVL-67NZLRHBNDSAWJRO - [0:0]
:KUBE-EXT-67NZLRHBNDSAWJRO - [0:0]
:KUBE-FW-67NZLRHBNDSAWJRO - [0:0]
:KUBE-SEP-34ZZ2QFGO32YYXXO - [0:0]
-I OUTPUT -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES
-I PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES
-I POSTROUTING -m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING
-A KUBE-SERVICES -j KUBE-SVC-67NZLRHBNDSAWJRO
-A KUBE-SVC-67NZLRHBNDSAWJRO -m recent --name KUBE-SEP-34ZZ2QFGO32YYXXO --rcheck --seconds 10800 --reap -j KUBE-SEP-34ZZ2QFGO32YYXXO
-A KUBE-SVC-67NZLRHBNDSAWJRO -m statistic --mode random --probability 0.5 -j KUBE-SEP-34ZZ2QFGO32YYXXO
-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
-A KUBE-POSTROUTING -j MASQUERADE --random-fully
COMMIT
*mangle
:KUBE-PROXY-CANARY - [0:0]
COMMIT
";

/// The chains and rules there are.
fn state() -> Vec<Saved> {
    every_program().into_iter().map(saved).collect()
}

fn write_everywhere(text: &'static str) {
    for mut commands in every_program() {
        commands.restore(&RestoreText::literal(text)).expect("iptables-restore");
    }
}

/// Row: iptables J16
/// Row: ipvs R49
#[test]
fn only_what_others_wrote_is_left() {
    with_iptables(|| {
        write_everywhere(OTHERS);
        let before = state();
        write_everywhere(KUBE_PROXY);
        assert_eq!(remove_leftovers().expect("a removal").chains, 4 * 18);
        assert_eq!(state(), before);
        assert_eq!(remove_leftovers().expect("a removal").chains, 0);
        assert_eq!(state(), before);
    });
}

#[test]
fn a_host_without_rules_stays_without_tables() {
    with_iptables(|| {
        let before = state();
        assert!(before.iter().all(|saved| saved.tables.is_empty()), "{before:?}");
        assert_eq!(remove_leftovers().expect("a removal").chains, 0);
        assert_eq!(state(), before);
    });
}

#[test]
fn a_chain_another_program_uses_is_emptied_and_the_rest_goes() {
    with_iptables(|| {
        write_everywhere(KUBE_PROXY);
        write_everywhere("*nat\n:CNI - [0:0]\n-A CNI -j KUBE-MARK-MASQ\nCOMMIT\n");
        remove_leftovers().expect("a removal");
        for saved in state() {
            let nat = saved.table("nat").expect("nat");
            let own: Vec<_> = nat
                .chains
                .iter()
                .filter(|chain| chain.policy.is_none())
                .map(|chain| chain.name.as_str())
                .collect();
            assert_eq!((own, nat.rules.len()), (vec!["CNI", "KUBE-MARK-MASQ"], 1));
        }
    });
}

#[test]
fn the_variant_with_rules_is_the_one_to_use() {
    with_iptables(|| {
        use ferrule_kernel::iptables::Variant;
        use ferrule_kernel::nft::Family;
        let choose = |policy| TableAccess::choose(Family::Ip, policy).expect("a choice").access;
        let variant_of = |policy| choose(policy).variant();
        let policies = [AccessPolicy::NetlinkFirst, AccessPolicy::CommandsOnly];
        assert!(policies.iter().all(|policy| variant_of(*policy) == Some(Variant::Nft)), "as iptables is");
        let hint = RestoreText::literal("*mangle\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n");
        let accept = RuleText::literal("-j ACCEPT");
        for (number, variant) in [Variant::Legacy, Variant::Nft].into_iter().enumerate() {
            let mut text = RestoreText::default();
            text.table("filter", |lines| (0..=number).for_each(|_| lines.append("INPUT", &accept)));
            IptablesCommands::new(Family::Ip, variant).restore(&text).expect("rules");
            assert!(policies.iter().all(|policy| variant_of(*policy) == Some(variant)));
        }
        assert_eq!(choose(AccessPolicy::NetlinkFirst), TableAccess::Netlink(Family::Ip));
        assert!(!choose(AccessPolicy::CommandsOnly).is_netlink());
        IptablesCommands::new(Family::Ip, Variant::Legacy).restore(&hint).expect("a hint");
        assert!(policies.iter().all(|policy| variant_of(*policy) == Some(Variant::Legacy)));
    });
}

#[test]
fn while_ipvs_mode_drains_the_hosts_own_packets_are_masqueraded() {
    with_iptables(|| {
        use support::iptables::run;
        let create = ["create", "KUBE-IPVS-IPS", "hash:ip"];
        if !std::process::Command::new("ipset").args(create).output().is_ok_and(|made| made.status.success())
        {
            println!("skipped: this kernel has no address sets");
            return;
        }
        run("ipset", &["create", "KUBE-6-IPVS-IPS", "hash:ip", "family", "inet6"]);
        write_everywhere(KUBE_PROXY);
        for _ in 0..2 {
            remove_nat_leftovers().expect("a removal");
            for saved in state() {
                let nat = saved.table("nat").expect("nat");
                let ours = nat.chains.iter().filter(|chain| chain.policy.is_none());
                let ours: Vec<_> = ours.map(|chain| chain.name.as_str()).collect();
                assert_eq!((ours, nat.rules.len()), (vec!["FERRULE-IPVS-DRAIN"], 2), "{saved:?}");
                assert!(saved.table("filter").expect("filter").has_chain("KUBE-IPVS-FILTER"));
            }
        }
        // It goes with the rest of ipvs mode, whichever mode runs then.
        remove_ipvs_leftovers().expect("a removal");
        for saved in state() {
            assert!(!saved.table("nat").expect("nat").has_chain("FERRULE-IPVS-DRAIN"), "{saved:?}");
        }
    });
}

#[test]
fn the_sets_of_ipvs_mode_go_and_others_stay() {
    with_iptables(|| {
        use support::iptables::run;
        run("ip", &["link", "add", "kube-ipvs0", "type", "veth", "peer", "name", "other0"]);
        run("ip", &["addr", "add", "10.96.0.1/32", "dev", "kube-ipvs0"]);
        run("ip", &["link", "add", "name", "kube-ipvs1", "type", "bridge"]);
        let has_sets = std::process::Command::new("ipset")
            .args(["create", "KUBE-CLUSTER-IP", "hash:ip,port"])
            .output()
            .is_ok_and(|output| output.status.success());
        if has_sets {
            run(
                "ipset",
                &["create", "KUBE-6-LOAD-BALANCER-SOURCE-CID", "hash:ip,port,net", "family", "inet6"],
            );
            run("ipset", &["create", "KUBE-OTHERS", "hash:ip"]);
        }
        let expected = if has_sets { 2 } else { 0 };
        let entry_points = backend(ProxyMode::Ipvs).remove_entry_points(None, OpenConnections::Cut);
        assert!(entry_points.expect("a removal").removed.iter().all(|leftover| leftover.objects == 0));
        assert_eq!(ferrule_backends::ipvs::remove_sets().expect("a removal"), expected);
        let links = run("ip", &["-o", "link"]);
        // It has the name and is no dummy device: it is not ours. The virtual machine has one that is.
        assert!(links.contains("kube-ipvs0") && links.contains("kube-ipvs1"), "{links}");
        if has_sets {
            assert_eq!(run("ipset", &["list", "-n"]).trim(), "KUBE-OTHERS");
        }
        assert_eq!(ferrule_backends::ipvs::remove_sets().expect("a removal"), 0);
    });
}
