//! From tags to page: what adds up, what does not, and how it is shown.

use super::*;

const SPEC: &str = "\
# comment
model   10.1  S1-S3  Services
server  -     -      Flags
";

fn catalogue() -> Catalogue {
    Catalogue::parse(SPEC).expect("the list above is well formed")
}

fn test_file(rows: &str) -> SourceFile {
    let text = format!("/// Row: {rows}\n#[test]\nfn holds() {{}}\n");
    SourceFile { path: "crates/model/src/tests.rs".to_owned(), text }
}

fn books(files: &[SourceFile], waiting: &str) -> (Vec<String>, Vec<String>) {
    let ledger = ledger_of(files, waiting, &catalogue());
    let unheld = unheld_findings(&catalogue(), &ledger).iter().map(ToString::to_string).collect();
    (ledger.findings.iter().map(ToString::to_string).collect(), unheld)
}

#[test]
fn every_row_is_tested_or_waits() {
    let (findings, unheld) = books(&[test_file("model S1, S2")], "model S3  waits for a backend\n");
    assert!(findings.is_empty() && unheld.is_empty(), "{findings:?} {unheld:?}");
}

#[test]
fn a_row_that_is_neither_is_unheld() {
    let (_, unheld) = books(&[test_file("model S2")], "");
    assert_eq!(unheld.len(), 1);
    assert!(unheld[0].starts_with("xtask/spec-rows.txt:2: no test for model S1, S3; "), "{}", unheld[0]);
    let (_, unheld) = books(&[test_file("model S3")], "");
    assert!(unheld[0].contains(" model S1-S2; "), "{}", unheld[0]);
}

#[test]
fn a_row_that_is_both_is_found() {
    let (findings, _) = books(&[test_file("model S1-S3")], "\nmodel S3  waits\n");
    assert_eq!(findings, [format!("{WAITING}:2: row model S3 is tested and need not wait; take it out")]);
}

#[test]
fn unknown_rows_are_found_in_tags_and_in_the_waiting_list() {
    for rows in ["model S4", "model Z1", "iptables I1", "model 10.1 #3"] {
        assert_eq!(books(&[test_file(rows)], "").0.len(), 1, "{rows}");
        assert_eq!(books(&[], &format!("{rows}  waits\n")).0.len(), 1, "{rows}");
    }
}

#[test]
fn a_waiting_row_needs_a_reason_and_waits_once() {
    assert_eq!(books(&[], "model S1\n").0.len(), 1);
    assert_eq!(books(&[], "model S1-S3  waits\nmodel S2  waits too\n").0.len(), 1);
}

#[test]
fn this_crates_own_fixtures_hold_nothing() {
    let mut fixture = test_file("model S1");
    fixture.path = "xtask/src/coverage/tests.rs".to_owned();
    assert!(books(&[fixture], "").1[0].contains(" model S1-S3; "));
}

#[test]
fn a_malformed_row_list_is_refused() {
    for line in ["model", "model 10.1 S1 Title", "model 10.1 1-3 Title"] {
        assert!(Catalogue::parse(line).is_err(), "{line}");
    }
}

#[test]
fn the_page_shows_where_each_row_stands() {
    let story = "-- packets --\na b c  # model S1\n".to_owned();
    let story = SourceFile { path: "stories/web/one.story".to_owned(), text: story };
    let ledger =
        ledger_of(&[test_file("model S1, server 8.1 #3"), story], "model S2  waits for rain\n", &catalogue());
    let page = page::render(&catalogue(), &ledger);
    let at = page.find("| spec |").expect("the page has a summary");
    let expected = "\
| spec | section | about | rows | tested | waiting |
|---|---|---|--:|--:|--:|
| model | 10.1 | Services | 3 | 1 | 1 |
| **all** | | | 3 | 1 | 1 |

## model 10.1: Services

| row | where |
|---|---|
| S1 | [`holds`](../crates/model/src/tests.rs), [story web/one](../stories/web/one.story) |
| S2 | waits for rain |
| S3 | **no test** |

## server: Flags

| row | where |
|---|---|
| 8.1 #3 | [`holds`](../crates/model/src/tests.rs) |
";
    assert_eq!(&page[at..], expected);
}
