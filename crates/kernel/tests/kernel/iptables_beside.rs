//! Our rules in the hands of iptables' programs, and theirs in ours.

use ferrule_kernel::iptables::direct::NetlinkTables;
use ferrule_kernel::iptables::{RestoreText, Saved, Token, tokens};
use ferrule_kernel::nft::Family;
use ferrule_kernel::port::XTables as _;

use crate::support::iptables_forms::{TABLES, all_forms, forms, prepare, text};
use crate::support::iptables_program::{iptables, restore, save, with_iptables};
use crate::support::namespace::elsewhere;
use crate::support::nft_program;

const FAMILIES: [Family; 2] = [Family::Ip, Family::Ip6];

fn literal(text: String) -> RestoreText {
    RestoreText::literal(text.leak())
}

fn written(family: Family) -> NetlinkTables {
    let mut tables = NetlinkTables::open(family).unwrap();
    tables.restore(&literal(text(&forms(family)))).unwrap();
    tables
}

/// Runs `iptables` on a table, with a rule behind the other arguments, and returns whether it succeeded.
fn with_rule(family: Family, (table, rule): (&str, &str), command: &[&str]) -> bool {
    let words = tokens(rule).into_iter().map(|token| match token {
        Token::Bare(text) | Token::Quoted(text) => text,
    });
    let words: Vec<String> = words.collect();
    let mut arguments = vec!["-t", table];
    arguments.extend(command);
    arguments.extend(words.iter().map(String::as_str));
    let output = iptables(family, &arguments);
    if !output.status.success() {
        println!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success()
}

fn succeeds(family: Family, arguments: &[&str]) -> bool {
    iptables(family, arguments).status.success()
}

/// The lines of `iptables-save` without counters and dates.
fn lines(saved: &str) -> Vec<String> {
    let lines = saved.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split(" [").next().unwrap_or(line).to_owned()).collect()
}

#[test]
fn iptables_lists_saves_and_restores_our_rules() {
    with_iptables(|| {
        prepare();
        for family in FAMILIES {
            let forms = forms(family);
            written(family);
            for table in TABLES {
                let count = forms.iter().filter(|form| form.0 == table).count();
                let listed = iptables(family, &["-t", table, "-S", "FORMS"]);
                let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
                assert_eq!(listed.lines().filter(|line| line.starts_with("-A")).count(), count, "{listed}");
                assert!(succeeds(family, &["-t", table, "-L", "-n", "-v"]));
            }
            let saved = save(family);
            let again = elsewhere({
                let saved = saved.clone();
                move || {
                    prepare();
                    restore(family, &saved);
                    save(family)
                }
            });
            assert_eq!(lines(&saved), lines(&again));
        }
    });
}

#[test]
fn iptables_checks_and_deletes_our_rules_by_their_text() {
    with_iptables(|| {
        prepare();
        for family in FAMILIES {
            written(family);
            for form in forms(family) {
                assert!(with_rule(family, form, &["-C", "FORMS"]), "{form:?}");
                assert!(with_rule(family, form, &["-D", "FORMS"]), "{form:?}");
            }
            assert_eq!(Saved::parse(&save(family)).rules(), 0);
        }
    });
}

#[test]
fn we_delete_the_rules_of_iptables_by_their_text() {
    with_iptables(|| {
        prepare();
        for family in FAMILIES {
            let forms = all_forms(family);
            restore(family, &text(&forms));
            let text = text(&forms).replace(":FORMS - [0:0]\n:KUBE-X - [0:0]\n", "").replace("-A ", "-D ");
            NetlinkTables::open(family).unwrap().restore(&literal(text)).unwrap();
            assert_eq!(Saved::parse(&save(family)).rules(), 0);
        }
    });
}

#[test]
fn iptables_works_beside_our_rules() {
    with_iptables(|| {
        prepare();
        for family in FAMILIES {
            let mut tables = written(family);
            let rules = tables.list_chain("filter", "FORMS").unwrap().map(|rules| rules.len()).unwrap();
            assert!(succeeds(family, &["-I", "FORMS", "2", "-m", "limit", "--limit", "5/s", "-j", "RETURN"]));
            assert!(succeeds(family, &["-A", "FORMS", "-j", "LOG"]));
            assert!(succeeds(family, &["-R", "FORMS", "3", "-j", "ACCEPT"]));
            assert!(succeeds(family, &["-Z"]) && succeeds(family, &["-Z", "FORMS", "4"]));
            assert_eq!(
                tables.list_chain("filter", "FORMS").unwrap().map(|rules| rules.len()),
                Some(rules + 2)
            );
            assert!(!succeeds(family, &["-X", "KUBE-X"]), "it is jumped to");
            assert!(!succeeds(family, &["-X", "FORMS"]), "it is not empty");
            assert!(succeeds(family, &["-E", "FORMS", "OTHER"]) && succeeds(family, &["-F", "OTHER"]));
            assert!(succeeds(family, &["-X", "OTHER"]) && succeeds(family, &["-X", "KUBE-X"]));
            assert_eq!(tables.list_chain("filter", "KUBE-X").unwrap().map(|rules| rules.len()), None);
        }
    });
}

#[test]
fn rules_of_others_are_read_as_far_as_they_are_understood_and_never_written() {
    with_iptables(|| {
        let mut tables = NetlinkTables::open(Family::Ip).unwrap();
        tables
            .restore(&RestoreText::literal("*filter\n:KUBE-X - [0:0]\n-I INPUT -j KUBE-X\nCOMMIT\n"))
            .unwrap();
        nft_program::load("add rule ip filter INPUT ct state new log prefix \"x\" jump KUBE-X");
        nft_program::load("add rule ip filter INPUT tcp dport 22 accept comment \"ssh\"");
        nft_program::load("add rule ip filter INPUT ip ttl 5 udp dport { 53, 54 } drop");
        assert!(succeeds(Family::Ip, &["-A", "INPUT", "-m", "limit", "--limit", "5/s", "-j", "KUBE-X"]));
        assert!(succeeds(Family::Ip, &["-A", "INPUT", "-m", "helper", "--helper", "ftp", "-j", "LOG"]));
        let saved = tables.save().unwrap();
        let texts: Vec<&str> =
            saved.table("filter").unwrap().rules.iter().map(|rule| rule.text.as_str()).collect();
        println!("{texts:#?}");
        assert_eq!(texts.len(), 6);
        assert_eq!(texts[0], "-j KUBE-X");
        assert!(texts[1].contains("--not-understood") && texts[1].ends_with("-j KUBE-X"), "{}", texts[1]);
        assert_eq!(texts[2], "-p tcp -m tcp --dport 22 -m comment --comment ssh -j ACCEPT");
        assert!(texts[3].contains("--not-understood \"cmp, "), "{}", texts[3]);
        assert!(
            texts[5].starts_with("-m helper --not-understood")
                && texts[5].contains("-j LOG --not-understood")
        );
        for text in [texts[1], texts[3], texts[5]] {
            let written = tables.restore(&literal(format!("*filter\n-A KUBE-X {text}\nCOMMIT\n")));
            assert!(written.unwrap_err().to_string().contains("cannot be written"), "{text}");
        }
        let text = format!("*filter\n-D INPUT {}\n-D INPUT {}\nCOMMIT\n", texts[1], texts[5]);
        tables.restore(&literal(text)).unwrap();
        let left: Vec<String> =
            tables.save().unwrap().tables[0].rules.iter().map(|rule| rule.text.to_string()).collect();
        assert_eq!(left, [texts[0], texts[2], texts[3], texts[4]]);
    });
}
