//! Both syntaxes to one tree, and files made to break a reader.

use std::fmt::Write;

use super::*;

fn map(text: &str) -> Vec<(String, Content)> {
    match parse(text.as_bytes()).expect("valid").content {
        Content::Map(entries) => entries.into_iter().map(|entry| (entry.key, entry.value.content)).collect(),
        other => panic!("{other:?} is no map"),
    }
}

fn refusal(text: &str) -> SyntaxError {
    parse(text.as_bytes()).expect_err("must be refused")
}

#[test]
fn yaml_and_json_give_the_same_tree() {
    let yaml = map("a: 1\nb: [x, 'y']\nc: {d: yes}\n");
    let json = map(r#"{"a": 1, "b": ["x", "y"], "c": {"d": true}}"#);
    assert_eq!(
        format!("{yaml:?}").replace("line: 2", "line: 0").replace("line: 3", "line: 0"),
        format!("{json:?}")
    );
}

#[test]
fn quoted_words_stay_text() {
    assert_eq!(map("a: '5'\n"), [("a".to_owned(), Content::Text("5".to_owned()))]);
    assert_eq!(map("a: !!str 5\n"), [("a".to_owned(), Content::Text("5".to_owned()))]);
}

#[test]
fn only_the_first_document_is_read() {
    assert_eq!(map("a: 1\n---\nb: [}\n"), [("a".to_owned(), Content::Integer(1))]);
}

#[test]
fn merge_keys_yield_to_the_maps_own_keys() {
    let entries = map("base: &b {x: 1, z: 2}\nmine:\n  <<: *b\n  z: 3\n");
    let Some((_, Content::Map(mine))) = entries.last() else { panic!("no map") };
    let keys: Vec<_> =
        mine.iter().map(|entry| (entry.key.as_str(), &entry.value.content, entry.merged)).collect();
    assert_eq!(
        keys,
        [
            ("x", &Content::Integer(1), true),
            ("z", &Content::Integer(2), true),
            ("z", &Content::Integer(3), false)
        ]
    );
}

#[test]
fn errors_name_the_line() {
    assert_eq!(refusal("a: 1\nb: [}\n").line, 2);
    assert_eq!(refusal("{\"a\": 1,\n \"b\": x}").line, 2);
    assert_eq!(parse(b"a: 1\nb: \xff\n").expect_err("not UTF-8").line, 2);
}

#[test]
fn numbers_json_cannot_say_are_refused() {
    assert_eq!(refusal("a: 1\nb: .inf\n").to_string(), "line 2: infinity and NaN are not allowed");
}

#[test]
fn deep_and_exploding_documents_are_refused() {
    assert!(refusal(&"[".repeat(100_000)).reason.len() > 3);
    let mut bomb = "a0: &a0 [x]\n".to_owned();
    for level in 1..40 {
        let below = level - 1;
        writeln!(bomb, "a{level}: &a{level} [*a{below}, *a{below}, *a{below}]").expect("a String takes it");
    }
    assert_eq!(refusal(&bomb).reason, "the document is too large");
    assert!(refusal("a: &a [*a]\n").reason.contains("anchor"));
}

#[test]
fn a_slip_in_json_is_shown_with_what_stands_around_it() {
    for (text, expected) in [
        ("{\"a\": 1, \"mode\": }", "line 1: expected value near \"{\\\"a\\\": 1, \\\"mode\\\": }\""),
        ("{\n  \"é\": [1,,2]\n}", "line 2: expected value near \"\\\"é\\\": [1,,2]\""),
    ] {
        assert_eq!(parse(text.as_bytes()).expect_err("a slip").to_string(), expected);
    }
    let long = format!("{{\"a\": [{}x]}}", "1, ".repeat(1000));
    let shown = parse(long.as_bytes()).expect_err("a slip").to_string();
    assert!(shown.len() < 100 && shown.contains("1, x]"), "{shown}");
}
