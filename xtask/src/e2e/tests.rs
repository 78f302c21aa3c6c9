//! What a table says about reports, and what is wrong with it.

use super::exceptions::Exceptions;
use super::report::{Outcome, parse};
use super::{Table, judge, page};

const REPORT: &str = r#"[{"SpecReports": [
  {"ContainerHierarchyTexts": null, "LeafNodeType": "BeforeSuite", "LeafNodeText": "", "State": "passed", "RunTime": 1},
  {"ContainerHierarchyTexts": ["[sig-network] DNS"], "LeafNodeType": "It", "LeafNodeText": "works", "State": "passed", "RunTime": 2600000000, "NumAttempts": 2},
  {"ContainerHierarchyTexts": ["[sig-network] DNS"], "LeafNodeType": "It", "LeafNodeText": "breaks", "State": "failed", "RunTime": 1,
   "Failure": {"Message": "\n  no answer\nmore"}},
  {"ContainerHierarchyTexts": ["[sig-network] SCTP [Feature:X]"], "LeafNodeType": "It", "LeafNodeText": "flows", "State": "skipped", "RunTime": 0},
  {"ContainerHierarchyTexts": ["[sig-apps] Job"], "LeafNodeType": "It", "LeafNodeText": "ends", "State": "failed", "RunTime": 0}
]}]"#;

fn table(columns: &[(&str, &str)]) -> Table {
    let mut table = Table::default();
    for (column, report) in columns {
        table.columns.push((*column).to_owned());
        for (name, outcome) in parse(report).expect("a report") {
            table.specs.entry(name).or_default().insert((*column).to_owned(), outcome);
        }
    }
    table
}

#[test]
fn a_report_has_the_specs_of_the_group_and_what_became_of_them() {
    let specs = parse(REPORT).expect("a report");
    assert_eq!(
        specs,
        [
            ("DNS works".to_owned(), Outcome::Passed { seconds: 2.6, attempts: 2 }),
            ("DNS breaks".to_owned(), Outcome::Failed { message: "no answer".to_owned(), reason: None }),
            ("SCTP [Feature:X] flows".to_owned(), Outcome::Skipped { reason: None }),
        ]
    );
}

#[test]
fn what_did_not_pass_needs_a_reason() {
    let mut table = table(&[("ferrule-nftables", REPORT)]);
    assert_eq!(
        judge::findings(&table),
        [
            "ferrule-nftables: fails: DNS breaks: no answer",
            "ferrule-nftables: skipped for no reason: SCTP [Feature:X] flows"
        ]
    );
    let list = "# comment\nskip | * | [Feature:X] | no SCTP here\nfails | ferrule-nftables | DNS breaks | no name server\n";
    Exceptions::parse(list).expect("a list").explain(&mut table);
    assert_eq!(judge::findings(&table), Vec::<String>::new());
    assert!(page::render(&table).contains("| SCTP [Feature:X] flows | all | no SCTP here |"));
}

#[test]
fn no_reason_excuses_what_kube_proxy_passes() {
    let peer = REPORT.replace("failed", "passed");
    let mut table = table(&[("kube-proxy-nftables", peer.as_str()), ("ferrule-nftables", REPORT)]);
    let list = "skip | * | [Feature:X] | no SCTP here\nfails | * | DNS breaks | no name server\n";
    Exceptions::parse(list).expect("a list").explain(&mut table);
    assert_eq!(
        judge::findings(&table),
        ["ferrule-nftables: fails, and passes with kube-proxy: DNS breaks: no answer"]
    );
}

#[test]
fn a_spec_that_a_report_does_not_have_is_missed() {
    let some = r#"[{"SpecReports": [{"ContainerHierarchyTexts": ["[sig-network] DNS"], "LeafNodeType": "It", "LeafNodeText": "breaks", "State": "passed", "RunTime": 1}]}]"#;
    let table = table(&[("kube-proxy-nftables", REPORT), ("ferrule-nftables", some)]);
    assert_eq!(judge::absent(&table), ["ferrule-nftables: not run, and passes with kube-proxy: DNS works"]);
}

#[test]
fn of_some_specs_the_others_are_no_concern() {
    let mut table = table(&[("ferrule-nftables", REPORT)]);
    table.forget_unexplained_skips();
    assert_eq!(judge::findings(&table), ["ferrule-nftables: fails: DNS breaks: no answer"]);
    assert_eq!(table.specs.len(), 2);
}

#[test]
fn skipped_specs_are_named_literally() {
    let list = "skip | * | [Feature:X] | why\nfails | * | DNS | why\nskip | ferrule-ipvs | a+b | why\nskip | * | a.b | why\n";
    let list = Exceptions::parse(list).expect("a list");
    assert_eq!(list.skip_expression("ferrule-nftables"), r"\[Feature:X\]|a\.b");
    assert_eq!(list.skip_expression("ferrule-ipvs"), r"\[Feature:X\]|a\+b|a\.b");
}

#[test]
fn a_line_without_a_reason_is_refused() {
    for line in ["skip | * | x", "maybe | * | x | why", "x"] {
        assert!(Exceptions::parse(line).is_err(), "{line}");
    }
}
