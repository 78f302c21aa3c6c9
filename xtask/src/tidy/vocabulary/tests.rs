//! Dialect in names, comments, strings and pages, and text that only resembles it.

use super::*;

fn found_in(path: &str, text: &str) -> Vec<(usize, String)> {
    let found = findings(&[SourceFile { path: path.to_owned(), text: text.to_owned() }]);
    found.into_iter().map(|finding| (finding.line, finding.message)).collect()
}

fn lines_found(text: &str) -> Vec<usize> {
    found_in("crates/a/src/b.rs", text).into_iter().map(|(line, _)| line).collect()
}

#[test]
fn a_finding_names_the_word_to_use_instead() {
    let found = found_in("crates/a/src/b.rs", "fn was_told() {}\n");
    assert_eq!(found, [(1, "`was_told`: not \"told\" but reported, notified, logged".to_owned())]);
    let found = found_in("docs/operating.md", "The operator\nis told.\n");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, 2);
}

#[test]
fn names_are_found_where_they_are_defined_and_used() {
    assert_eq!(lines_found("struct Rhythm;\nfn f(a: Rhythm) {}\n"), [1, 2]);
    assert_eq!(lines_found("const PATIENCE: u8 = 1;\n"), [1]);
    assert_eq!(lines_found("fn f() { assert!(look_again()); }\n"), [1], "inside a macro");
}

#[test]
fn comments_docs_and_strings_are_prose() {
    assert_eq!(lines_found("/// Nobody knows.\nfn f() {}\n"), [1]);
    assert_eq!(lines_found("//! Somebody.\n"), [1]);
    assert_eq!(lines_found("fn f() {} // looked at\n"), [1]);
    assert_eq!(lines_found("fn f() { warn!(\"the file is\\n looked at\"); }\n"), [1]);
    assert_eq!(lines_found("const A: &str = \"a\n  told\n\";\n"), [2]);
}

#[test]
fn a_phrase_is_found_across_two_lines_and_once() {
    assert_eq!(lines_found("// The rules are looked\n// at.\nfn f() {}\n"), [1]);
    assert_eq!(lines_found("// The rules are looked\n\n// at.\nfn f() {}\n"), [] as [usize; 0]);
}

#[test]
fn other_words_code_and_tests_pass() {
    for text in [
        "fn gateway(lookup: Lookup) -> Newsletter {}\n",
        "/// An ill-formed `nobody`, stolen.\nfn f() {}\n",
        "#[cfg(test)]\nmod tests {\n    // Nobody.\n    fn told() {}\n}\n",
        "const URL: &str = \"https://example.org/x\"; // a comment\n",
    ] {
        assert_eq!(lines_found(text), [] as [usize; 0], "{text}");
    }
    for path in
        ["crates/a/tests/b.rs", "crates/testkit/src/b.rs", "docs/coverage.md", "docs/decisions/0001.md"]
    {
        assert!(found_in(path, "// nobody is told\n").is_empty(), "{path}");
    }
    assert!(found_in("README.md", "```text\nnobody\n```\n`somebody`\n").is_empty());
}

#[test]
fn every_entry_is_in_lower_case_and_listed_once() {
    for list in [&IDENTIFIERS[..], &PHRASES[..]] {
        for (index, entry) in list.iter().enumerate() {
            assert_eq!(entry.dialect, entry.dialect.to_lowercase());
            assert!(!list[..index].iter().any(|other| other.dialect == entry.dialect), "{}", entry.dialect);
        }
    }
}
