//! Rules written by us and by iptables, compared byte by byte as the kernel dumps them. iptables is the oracle.

use ferrule_kernel::iptables::direct::{NetlinkTables, XtRule};
use ferrule_kernel::iptables::{CanonicalRule, RestoreText, Saved};
use ferrule_kernel::nft::Family;
use ferrule_kernel::port::XTables as _;

use crate::support::iptables_forms::{TABLES, all_forms, forms, prepare, text};
use crate::support::iptables_program::{restore, save, with_iptables, with_oracle};
use crate::support::namespace::elsewhere;
use crate::support::raw_dump::{Object, dump, expressions, text as text_of};

const FAMILIES: [(Family, u8); 2] = [(Family::Ip, 2), (Family::Ip6, 10)];

/// A text of the tests, which is there until they end.
fn literal(text: String) -> RestoreText {
    RestoreText::literal(text.leak())
}

#[test]
fn every_form_is_encoded_as_iptables_encodes_it() {
    with_oracle(|| {
        prepare();
        for (family, number) in FAMILIES {
            let forms = forms(family);
            restore(family, &text(&forms));
            let theirs = dump(number, Object::Rule);
            let ours = elsewhere({
                let text = text(&forms);
                move || {
                    prepare();
                    NetlinkTables::open(family).unwrap().restore(&literal(text)).unwrap();
                    dump(number, Object::Rule)
                }
            });
            // The kernel lists tables in their order of creation.
            let mut differing = 0;
            let in_order = TABLES.map(|table| forms.iter().filter(move |form| form.0 == table));
            for ((form, theirs), ours) in in_order.into_iter().flatten().zip(&theirs).zip(&ours) {
                if theirs != ours {
                    differing += 1;
                    println!(
                        "{family} {form:?}\n  iptables\n{}  ours\n{}",
                        expressions(theirs),
                        expressions(ours)
                    );
                }
            }
            assert_eq!((theirs.len(), ours.len(), differing), (forms.len(), forms.len(), 0));
        }
    });
}

#[test]
fn every_form_is_printed_as_iptables_prints_it() {
    with_iptables(|| {
        prepare();
        for (family, _) in FAMILIES {
            let forms = all_forms(family);
            restore(family, &text(&forms));
            let theirs = Saved::parse(&save(family));
            let ours = NetlinkTables::open(family).unwrap().save().unwrap();
            let mut differing = 0;
            for table in TABLES {
                let rules = |saved: &Saved| -> Vec<String> {
                    let rules = &saved.table(table).unwrap().rules;
                    rules.iter().map(|rule| format!("{} {}", rule.chain, rule.text)).collect()
                };
                let written = forms.iter().filter(|form| form.0 == table);
                assert_eq!(rules(&theirs).len(), rules(&ours).len());
                for ((written, theirs), ours) in written.zip(rules(&theirs)).zip(rules(&ours)) {
                    let canonical =
                        |text: &str| CanonicalRule::parse(text.strip_prefix("FORMS ").unwrap_or(text));
                    if theirs != ours || canonical(&ours) != canonical(&theirs) {
                        differing += 1;
                        println!("{family} {written:?}\n  iptables {theirs}\n  ours     {ours}");
                    }
                }
            }
            assert_eq!(differing, 0);
        }
    });
}

#[test]
fn what_is_printed_is_parsed_as_the_same_rule() {
    for (family, _) in FAMILIES {
        for (_, written) in all_forms(family) {
            let mut printed = String::new();
            let rule = XtRule::parse(written, family).unwrap_or_else(|error| panic!("{written}: {error}"));
            rule.print(family, &mut printed);
            assert_eq!(XtRule::parse(&printed, family).as_ref(), Ok(&rule), "{written}\n{printed}");
        }
    }
}

#[test]
fn tables_and_chains_are_those_of_iptables() {
    const TEXT: &str = "*nat\n:KUBE-X - [0:0]\n-I PREROUTING -j KUBE-X\n-A INPUT -j KUBE-X\n-I OUTPUT -j KUBE-X\n\
        -A POSTROUTING -j KUBE-X\nCOMMIT\n*filter\n:KUBE-X - [0:0]\n-I INPUT -j KUBE-X\n-I FORWARD -j KUBE-X\n\
        -I OUTPUT -j KUBE-X\nCOMMIT\n*mangle\n:KUBE-X - [0:0]\n-I PREROUTING -j KUBE-X\n-I INPUT -j KUBE-X\n\
        -I FORWARD -j KUBE-X\n-I OUTPUT -j KUBE-X\n-I POSTROUTING -j KUBE-X\nCOMMIT\n*raw\n-A PREROUTING -j ACCEPT\n\
        -A OUTPUT -j ACCEPT\nCOMMIT\n*security\n-A INPUT -j ACCEPT\n-A FORWARD -j ACCEPT\n-A OUTPUT -j ACCEPT\nCOMMIT\n";
    with_oracle(|| {
        for (family, number) in FAMILIES {
            restore(family, TEXT);
            let theirs = [Object::Table, Object::Chain].map(|object| dump(number, object));
            let ours = elsewhere(move || {
                NetlinkTables::open(family).unwrap().restore(&RestoreText::literal(TEXT)).unwrap();
                [Object::Table, Object::Chain].map(|object| dump(number, object))
            });
            for (mut theirs, mut ours) in theirs.into_iter().zip(ours) {
                // Built-in chains are created before the others here.
                let name = |object: &Vec<(u16, Vec<u8>)>| (text_of(object, 1), text_of(object, 3));
                theirs.sort_by_key(name);
                ours.sort_by_key(name);
                assert_eq!(theirs, ours);
            }
        }
    });
}
