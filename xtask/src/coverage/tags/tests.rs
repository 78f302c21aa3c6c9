//! Tags as people write them, and the mistakes they make.

use super::*;

fn file(path: &str, text: &str) -> SourceFile {
    SourceFile { path: path.to_owned(), text: text.to_owned() }
}

/// `row by holder` for each tag found.
fn held(tags: &Tags) -> Vec<String> {
    let by = |tag: &Tag| match &tag.holder {
        Holder::Test { name, .. } => format!("{} by {name}", tag.row),
        Holder::Story { name, .. } => format!("{} by story {name}", tag.row),
    };
    tags.tags.iter().map(by).collect()
}

fn check_rust(text: &str, expected: &[&str]) {
    let tags = in_rust(&file("crates/a/src/tests.rs", text));
    assert_eq!(tags.findings, [], "in {text}");
    assert_eq!(held(&tags), expected, "in {text}");
}

#[test]
fn a_test_names_its_rows_in_its_docs() {
    check_rust("/// Row: model S1\n#[test]\nfn one() {}\n", &["model S1 by one"]);
    check_rust("#[test]\n/// Row: model S1\nfn one() {}\n", &["model S1 by one"]);
    check_rust(
        "    /// Rows: model S1, S3\n    #[test]\n    fn two() {\n",
        &["model S1 by two", "model S3 by two"],
    );
    check_rust(
        "/// Why it matters.\n/// Row: model T1\n/// Row: nftables N2\n#[test]\nfn two() {}\n",
        &["model T1 by two", "nftables N2 by two"],
    );
}

#[test]
fn ranges_and_several_specifications_fit_in_one_tag() {
    check_rust(
        "/// Row: model S1-S3, nftables N81, iptables I1–I2\n#[test]\nfn many() {}\n",
        &[
            "model S1 by many",
            "model S2 by many",
            "model S3 by many",
            "nftables N81 by many",
            "iptables I1 by many",
            "iptables I2 by many",
        ],
    );
}

#[test]
fn rows_without_ids_are_named_by_hand() {
    check_rust(
        "/// Row: server 8.1 #3, 8.2 #1\n#[test]\nfn flag() {}\n",
        &["server 8.1 #3 by flag", "server 8.2 #1 by flag"],
    );
}

#[test]
fn a_property_inside_a_macro_can_hold_a_row() {
    check_rust(
        "proptest! {\n    #![proptest_config(config())]\n    /// Row: model C1\n    #[test]\n    fn any_order(a in b()) {\n",
        &["model C1 by any_order"],
    );
}

#[test]
fn other_attributes_may_stand_between() {
    check_rust(
        "/// Row: model C1\n#[test]\n#[expect(\n    clippy::panic,\n    reason = \"why\"\n)]\nfn one() {}\n",
        &["model C1 by one"],
    );
}

#[test]
fn a_tag_holds_nothing_unless_it_is_on_a_test() {
    for text in [
        "/// Row: model S1\nfn helper() {}\n",
        "/// Row: model S1\n\n#[test]\nfn apart() {}\n",
        "/// Row: model S1\nstruct Service;\n",
        "/// Row: model S1\n",
        "#[test]\nfn other() {}\n/// Row: model S1\nfn helper() {}\n",
    ] {
        let tags = in_rust(&file("crates/a/src/tests.rs", text));
        assert_eq!((tags.tags.len(), tags.findings.len()), (0, 1), "in {text}");
    }
}

#[test]
fn a_tag_that_cannot_be_read_is_found_at_its_line() {
    for list in ["S1", "model", "model S3-S1", "model S1-T4", "model S1,", "model one"] {
        let tags =
            in_rust(&file("crates/a/src/tests.rs", &format!("\n/// Row: {list}\n#[test]\nfn one() {{}}\n")));
        assert_eq!(tags.findings.len(), 1, "{list}");
        assert_eq!(tags.findings[0].line, 2, "{list}");
    }
}

const STORY: &str = "\
# A comment at the top. # nftables N7
-- cluster --
service web  # nftables N8
-- packets --
# FROM         TO             OUTCOME  # nftables N9
10.244.1.3     10.96.0.10:80  10.244.2.5:8080   # nftables N1, iptables I1
10.244.1.4     10.96.0.10:80  10.244.2.5:8080   # twice, since it hashes
10.244.1.5     10.96.0.10:80  dropped           # model T1-T2
-- then: endpoint web 10.244.1.9 node a ready --
10.244.1.5     10.96.0.10:80  dropped           # model T3
-- packets --
10.244.1.5     10.96.0.10:81  rejected          # server 8.1 #3
";

#[test]
fn a_story_names_rows_at_the_end_of_its_packets() {
    let tags = in_story(&file("stories/policy/local.story", STORY));
    assert_eq!(tags.findings, []);
    assert_eq!(
        held(&tags),
        ["nftables N1", "iptables I1", "model T1", "model T2", "server 8.1 #3"]
            .map(|row| format!("{row} by story policy/local"))
    );
}

#[test]
fn a_story_tag_that_cannot_be_read_is_found() {
    let tags = in_story(&file("stories/a.story", "-- packets --\na b c  # model T3-T1\n"));
    assert_eq!((tags.tags.len(), tags.findings.len()), (0, 1));
}
