//! On what cargo prints for a small workspace, and on this one.

use super::*;

const TREE: &str =
    "ferrule v0.1.0 (/x)\nferrule-kernel v0.1.0 (/x/crates/kernel)\nlibc v0.2.1\nnix v1.0.0+build (*)\n";
const METADATA: &str = r#"{
    "packages": [
        { "id": "f", "name": "ferrule", "version": "0.1.0", "license": "Apache-2.0" },
        { "id": "k", "name": "ferrule-kernel", "version": "0.1.0", "license": "Apache-2.0" },
        { "id": "l", "name": "libc", "version": "0.2.1", "license": "MIT/Apache-2.0" },
        { "id": "n", "name": "nix", "version": "1.0.0+build", "license": null },
        { "id": "t", "name": "tempfile", "version": "3.0.0", "license": "MIT" }
    ],
    "resolve": { "nodes": [
        { "id": "f", "dependencies": ["t", "n", "k"] }, { "id": "k", "dependencies": ["l"] },
        { "id": "l", "dependencies": [] }, { "id": "n", "dependencies": [] }
    ] }
}"#;
const LOCK: &str = "version = 4\n\n[[package]]\nname = \"libc\"\nversion = \"0.2.1\"\nsource = \"registry\"\n\
                    checksum = \"abc\"\n\n[[package]]\nname = \"ferrule\"\nversion = \"0.1.0\"\n";

fn subject() -> Subject {
    Subject { program: b"program".to_vec(), created: seconds_since_1970("0").expect("a time") }
}

#[test]
fn what_is_linked_is_listed_and_what_only_tests_use_is_not() {
    let linked = Linked::of(TREE, METADATA, LOCK).expect("all is known");
    let names: Vec<_> = linked.components.iter().map(|component| &*component.name).collect();
    assert_eq!(names, ["ferrule-kernel", "libc", "nix"]);
    assert_eq!(linked.direct, ["pkg:cargo/ferrule-kernel@0.1.0", "pkg:cargo/nix@1.0.0%2Bbuild"]);
    assert_eq!(linked.components[0].depends_on, ["pkg:cargo/libc@0.2.1"]);
    assert_eq!(linked.components[1].checksum.as_deref(), Some("abc"));
    assert_eq!(linked.components[0].checksum, None);
}

#[test]
fn the_document_is_the_same_for_the_same_program_only() {
    let linked = Linked::of(TREE, METADATA, LOCK).expect("all is known");
    let first = document(&subject(), &linked).expect("a document");
    assert_eq!(first, document(&subject(), &linked).expect("a document"));
    let another = Subject { program: b"another".to_vec(), ..subject() };
    let second = document(&another, &linked).expect("a document");
    assert_ne!(first["serialNumber"], second["serialNumber"]);
    assert_eq!(first["components"][1]["licenses"][0]["expression"], "MIT OR Apache-2.0");
    assert_eq!(first["metadata"]["timestamp"], "1970-01-01T00:00:00Z");
}

#[test]
fn every_reference_of_this_programs_document_is_in_it() {
    let root = crate::root().expect("the repository");
    let linked = Linked::by_cargo(&root, "x86_64-unknown-linux-gnu").expect("cargo answers");
    let document = document(&subject(), &linked).expect("a document");
    let list = |value: &serde_json::Value| value.as_array().expect("a list").clone();
    let mut known: Vec<_> =
        list(&document["components"]).iter().map(|component| component["bom-ref"].clone()).collect();
    known.push(document["metadata"]["component"]["bom-ref"].clone());
    for dependency in list(&document["dependencies"]) {
        assert!(known.contains(&dependency["ref"]), "{dependency}");
        assert!(list(&dependency["dependsOn"]).iter().all(|name| known.contains(name)), "{dependency}");
    }
    for needed in ["ferrule-kernel", "rustls", "ring", "tokio"] {
        assert!(linked.components.iter().any(|component| component.name == needed), "{needed}");
    }
    assert!(linked.components.iter().all(|component| component.license.is_some()));
    let unchecked = linked.components.iter().filter(|component| component.checksum.is_none());
    assert!(unchecked.into_iter().all(|component| component.name.starts_with("ferrule-")));
}
