//! What a text does to the tables, and what it leaves alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ferrule_kernel::iptables::direct::{NetlinkTables, RuleError, StampedChain};
use ferrule_kernel::iptables::{IptablesError, RestoreText, Saved};
use ferrule_kernel::nft::{Family, NftNotifications, NftWatch};
use ferrule_kernel::port::XTables as _;
use ferrule_kernel::subprocess::Cancel;

use crate::support::iptables_program::{iptables, save, with_iptables};
use crate::support::nft_program;

const CANARY: StampedChain = StampedChain { table: "mangle", chain: "KUBE-PROXY-CANARY" };

fn restored(tables: &mut NetlinkTables, text: &'static str) -> Result<(), IptablesError> {
    tables.restore(&RestoreText::literal(text))
}

/// The rules of a chain as iptables prints them.
fn chain(table: &str, name: &str) -> Vec<String> {
    let output = iptables(Family::Ip, &["-t", table, "-S", name]);
    let text = String::from_utf8(output.stdout).unwrap();
    let prefix = format!("-A {name} ");
    text.lines().filter_map(|line| line.strip_prefix(&prefix)).map(str::to_owned).collect()
}

fn with_tables(test: fn(&mut NetlinkTables)) {
    with_iptables(move || test(&mut NetlinkTables::open(Family::Ip).unwrap()));
}

#[test]
fn a_chain_is_created_refilled_and_removed() {
    with_tables(|tables| {
        restored(tables, "*nat\n:A - [0:0]\n:B - [0:0]\n-A A -j B\n-A B -j RETURN\n-A B -j ACCEPT\nCOMMIT\n")
            .unwrap();
        assert_eq!(chain("nat", "B"), ["-j RETURN", "-j ACCEPT"]);
        restored(tables, "*nat\n:B - [0:0]\n-A B -j DROP\n-I B -j RETURN\n-I A -j B\nCOMMIT\n").unwrap();
        assert_eq!(chain("nat", "B"), ["-j RETURN", "-j DROP"]);
        assert_eq!(chain("nat", "A"), ["-j B", "-j B"]);
        restored(tables, "*nat\n:A - [0:0]\n:B - [0:0]\n-X B\n-X A\nCOMMIT\n").unwrap();
        assert_eq!(
            (
                tables.list_chain("nat", "A").unwrap().map(|rules| rules.len()),
                tables.list_chain("nat", "OUTPUT").unwrap().map(|rules| rules.len())
            ),
            (None, Some(0))
        );
    });
}

#[test]
fn rules_may_jump_to_chains_that_are_declared_later() {
    with_tables(|tables| {
        restored(
            tables,
            "*nat\n:A - [0:0]\n-A A -j B\n:B - [0:0]\n-A B -j C\n-X D\n:D - [0:0]\n:C - [0:0]\nCOMMIT\n",
        )
        .unwrap();
        assert_eq!(
            (chain("nat", "A"), chain("nat", "B")),
            (vec!["-j B".to_owned()], vec!["-j C".to_owned()])
        );
        assert_eq!(tables.list_chain("nat", "D").unwrap().map(|rules| rules.len()), Some(0));
    });
}

#[test]
fn all_tables_change_or_none_does() {
    with_tables(|tables| {
        let text = "*filter\n:A - [0:0]\nCOMMIT\n*nat\n:A - [0:0]\n-A A -j NOWHERE\nCOMMIT\n";
        let error = restored(tables, text).unwrap_err();
        assert_eq!(error.rejected_line(), Some("-A A -j NOWHERE"), "{error:?}");
        assert!(!error.changed_nothing(), "the same text would be rejected again");
        assert_eq!(tables.list_chain("filter", "A").unwrap().map(|rules| rules.len()), None);
        assert_eq!(tables.save().unwrap(), Saved::default());
    });
}

#[test]
fn an_error_names_the_line_it_is_about() {
    with_tables(|tables| {
        restored(tables, "*nat\n:A - [0:0]\n:B - [0:0]\n-A A -j B\nCOMMIT\n").unwrap();
        for (text, line) in [
            ("*nat\n-X B\nCOMMIT\n", "-X B"),
            ("*nat\n-X A\nCOMMIT\n", "-X A"),
            ("*nat\n-X C\nCOMMIT\n", "-X C"),
            ("*nat\n:C - [0:0]\n-A D -j C\nCOMMIT\n", "-A D -j C"),
            ("*nat\n-A B -j ACCEPT\n-D B -j ACCEPT\nCOMMIT\n", "-D B -j ACCEPT"),
            ("*nat\n-D A -j RETURN\nCOMMIT\n", "-D A -j RETURN"),
            (
                "*nat\n-A A -m nfacct --nfacct-name no-such-counter\nCOMMIT\n",
                "-A A -m nfacct --nfacct-name no-such-counter",
            ),
            (
                "*nat\n-A A -m set --match-set NO-SUCH-SET dst\nCOMMIT\n",
                "-A A -m set --match-set NO-SUCH-SET dst",
            ),
            (
                "*nat\n-A A -j ACCEPT\n-A A -m time --datestart 2026\nCOMMIT\n",
                "-A A -m time --datestart 2026",
            ),
            ("*nat\n:B - [0:0]\n-A B -j A\nCOMMIT\n-I OUTPUT -j A\n", "-I OUTPUT -j A"),
        ] {
            let error = restored(tables, text).unwrap_err();
            println!("{error}: {:?}", std::error::Error::source(&error).map(ToString::to_string));
            assert_eq!(error.rejected_line(), Some(line), "{error:?}");
            assert_eq!(chain("nat", "A"), ["-j B"]);
        }
    });
}

#[test]
fn of_very_many_rejected_lines_the_first_is_named() {
    with_tables(|tables| {
        let lines: Vec<String> = (0..50_000).map(|number| format!("-A NOWHERE-{number} -j ACCEPT")).collect();
        let text = format!("*nat\n:A - [0:0]\n-A A -j ACCEPT\n{}\nCOMMIT\n", lines.join("\n"));
        let error = tables.restore(&RestoreText::literal(text.leak())).unwrap_err();
        assert_eq!(error.rejected_line(), Some("-A NOWHERE-0 -j ACCEPT"));
        // What is left of the replies answers no later request.
        restored(tables, "*nat\n:A - [0:0]\nCOMMIT\n").unwrap();
        assert_eq!(tables.list_chain("nat", "A").unwrap().map(|rules| rules.len()), Some(0));
    });
}

#[test]
fn a_loop_is_rejected() {
    with_tables(|tables| {
        let text = "*nat\n:A - [0:0]\n:B - [0:0]\n-I OUTPUT -j A\n-A A -j B\n-A B -j A\nCOMMIT\n";
        let error = restored(tables, text).unwrap_err();
        assert!(matches!(error, IptablesError::Rejected { .. }), "{error:?}");
        assert_eq!(tables.save().unwrap(), Saved::default());
    });
}

#[test]
fn rules_are_deleted_one_by_one() {
    with_tables(|tables| {
        restored(
            tables,
            "*nat\n:A - [0:0]\n-A A -j ACCEPT\n-A A -s 10.0.0.1 -j DROP\n-A A -j ACCEPT\nCOMMIT\n",
        )
        .unwrap();
        restored(tables, "*nat\n-D A -j ACCEPT\nCOMMIT\n").unwrap();
        assert_eq!(chain("nat", "A"), ["-s 10.0.0.1/32 -j DROP", "-j ACCEPT"]);
        restored(tables, "*nat\n-D A -j ACCEPT\n-D A -s 10.0.0.1/32 -j DROP\nCOMMIT\n").unwrap();
        let error = restored(tables, "*nat\n-D A -j ACCEPT\nCOMMIT\n").unwrap_err();
        let IptablesError::Unwritable { source, number: 2, .. } = error else { panic!("{error:?}") };
        assert_eq!(source, RuleError::MissingRule("A".to_owned()));
    });
}

#[test]
fn policies_and_built_in_chains_of_others_stay() {
    with_tables(|tables| {
        assert!(iptables(Family::Ip, &["-P", "INPUT", "DROP"]).status.success());
        nft_program::load(
            "add table ip nat; add chain ip nat OUTPUT { type nat hook output priority 7; policy drop; }",
        );
        restored(tables, "*filter\n:A - [0:0]\n-I INPUT -j A\n-I OUTPUT -j A\nCOMMIT\n*nat\n:A - [0:0]\n-I OUTPUT -j A\nCOMMIT\n")
            .unwrap();
        let saved = tables.save().unwrap();
        let policy = |table: &str, name: &str| {
            let chains = &saved.table(table).unwrap().chains;
            chains.iter().find(|chain| chain.name.as_str() == name).unwrap().policy.clone()
        };
        assert_eq!(
            (policy("filter", "INPUT").as_deref(), policy("filter", "OUTPUT").as_deref()),
            (Some("DROP"), Some("ACCEPT"))
        );
        assert_eq!(policy("nat", "OUTPUT").as_deref(), Some("DROP"));
        let listed = nft_program::list();
        assert!(listed.contains("type nat hook output priority filter + 7; policy drop;"), "{listed}");
    });
}

#[test]
fn a_test_changes_nothing_not_even_the_generation() {
    with_tables(|tables| {
        restored(tables, "*nat\n:A - [0:0]\n-A A -j ACCEPT\nCOMMIT\n").unwrap();
        let (before, listed) = (tables.generation().unwrap(), nft_program::list());
        let good = "*filter\n:B - [0:0]\n-I INPUT -j B\nCOMMIT\n*nat\n:A - [0:0]\n-A A -j DROP\nCOMMIT\n";
        tables.test(&RestoreText::literal(good)).unwrap();
        let error = tables.test(&RestoreText::literal("*nat\n-A A -j NOWHERE\nCOMMIT\n")).unwrap_err();
        assert_eq!(error.rejected_line(), Some("-A A -j NOWHERE"));
        assert_eq!((tables.generation().unwrap(), nft_program::list()), (before, listed));
        restored(tables, good).unwrap();
        assert_eq!(chain("nat", "A"), ["-j DROP"]);
    });
}

#[test]
fn what_a_text_depends_on_is_read_again_if_others_change_rules() {
    with_tables(|tables| {
        restored(tables, "*nat\n:A - [0:0]\n:B - [0:0]\nCOMMIT\n").unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let other = thread::spawn({
            let is_over = Arc::clone(&is_over);
            move || {
                let mut others = NetlinkTables::open(Family::Ip).unwrap();
                let mut commits = 0_u32;
                while !is_over.load(Ordering::Relaxed) {
                    restored(&mut others, "*mangle\n:C - [0:0]\nCOMMIT\n").unwrap();
                    commits += 1;
                    others.save().unwrap_or_default();
                }
                commits
            }
        });
        for _ in 0..200 {
            restored(tables, "*nat\n-I OUTPUT -j A\n-A A -j B\nCOMMIT\n").unwrap();
            restored(tables, "*nat\n-D OUTPUT -j A\n-D A -j B\nCOMMIT\n").unwrap();
            tables.save().unwrap_or_default();
        }
        is_over.store(true, Ordering::Relaxed);
        println!("beside {} commits of another program", other.join().unwrap());
        assert_eq!(tables.save().unwrap().rules(), 0);
    });
}

#[test]
fn a_stamp_is_kept_with_its_chain_and_others_do_not_mind() {
    with_tables(|tables| {
        assert_eq!(tables.stamp(CANARY).unwrap(), None);
        for digest in [7_u8, 8] {
            let text = RestoreText::literal("*nat\n:A - [0:0]\n-A A -j ACCEPT\nCOMMIT\n");
            let stamp = |generation: u32| [&[digest; 32][..], &generation.to_be_bytes()].concat();
            let generation = tables.restore_stamped(&text, CANARY, &stamp).unwrap();
            assert_eq!(tables.generation().unwrap(), generation);
            assert_eq!(tables.stamp(CANARY).unwrap(), Some(stamp(generation)));
        }
        let saved = save(Family::Ip);
        assert!(saved.contains(":KUBE-PROXY-CANARY - "), "{saved}");
        for arguments in [
            &["-t", "mangle", "-F", "KUBE-PROXY-CANARY"][..],
            &["-t", "mangle", "-L", "-n"],
            &["-t", "mangle", "-F"],
        ] {
            assert!(iptables(Family::Ip, arguments).status.success());
            assert!(tables.stamp(CANARY).unwrap().is_some());
        }
        assert_eq!(
            tables.list_chain("mangle", "KUBE-PROXY-CANARY").unwrap().map(|rules| rules.len()),
            Some(0)
        );
        nft_program::load(&nft_program::list());
        restored(tables, "*mangle\n:KUBE-PROXY-CANARY - [0:0]\nCOMMIT\n").unwrap();
        assert!(tables.stamp(CANARY).unwrap().is_some(), "a chain that is emptied keeps it");
        assert!(iptables(Family::Ip, &["-t", "mangle", "-X", "KUBE-PROXY-CANARY"]).status.success());
        assert_eq!(tables.stamp(CANARY).unwrap(), None);
        restored(tables, "*mangle\n:KUBE-PROXY-CANARY - [0:0]\nCOMMIT\n").unwrap();
        assert_eq!(tables.stamp(CANARY).unwrap(), None, "a chain that was made by another has none");
    });
}

#[test]
fn the_probe_finds_what_the_kernel_takes_and_leaves_no_trace() {
    with_iptables(|| {
        for family in [Family::Ip, Family::Ip6] {
            let mut tables = NetlinkTables::open(family).unwrap();
            let before = tables.generation().unwrap();
            tables.probe().unwrap();
            assert_eq!((tables.generation().unwrap(), nft_program::list()), (before, String::new()));
            assert!(!std::fs::exists("/proc/thread-self/net/xt_recent/FERRULE-PROBE").unwrap());
        }
    });
}

#[test]
fn a_read_can_be_cancelled() {
    with_tables(|tables| {
        restored(tables, "*nat\n:A - [0:0]\n-A A -j ACCEPT\nCOMMIT\n").unwrap();
        let cancel = Cancel::default();
        assert_eq!(tables.save_tables(&["nat"], &cancel).unwrap().rules(), 1);
        assert_eq!(tables.save_tables(&["filter"], &cancel).unwrap(), Saved::default());
        cancel.cancel();
        assert!(tables.save_tables(&["nat"], &cancel).unwrap_err().is_cancelled());
        assert_eq!(tables.save().unwrap().rules(), 1);
    });
}

#[test]
fn notifications_of_our_commits_carry_our_portid() {
    with_tables(|tables| {
        let mut watch = NftWatch::open().unwrap();
        restored(tables, "*nat\n:A - [0:0]\nCOMMIT\n").unwrap();
        let NftNotifications::Received(received) = watch.read().unwrap() else { panic!("an overrun") };
        assert!(!received.is_empty() && received.iter().all(|change| change.portid == tables.portid()));
    });
}
