//! A list held against what was told.

use ferrule_model::{Change, NodeName, ObjectKind};
use serde_json::json;

use super::*;
use crate::server::events::{Encoding, Raw};
use crate::server::resource::Resource;

fn slices() -> Resource {
    Resource::of(ObjectKind::EndpointSlice, &NodeName::new("a"), Encoding::Json)
}

fn slice(name: &str, version: &str) -> Object {
    let labels = json!({ "kubernetes.io/service-name": "web" });
    let metadata = json!({ "namespace": "n", "name": name, "resourceVersion": version, "labels": labels });
    slices()
        .put(Raw::json(json!({ "addressType": "IPv4", "metadata": metadata }).to_string().as_bytes()))
        .unwrap()
}

fn gone(name: &str) -> Change {
    let json = json!({ "metadata": { "namespace": "n", "name": name } }).to_string();
    slices().gone(Raw::json(json.as_bytes())).unwrap().0.unwrap()
}

/// What a batch says, in its order: `+` for an object that is there, `-` for one that is gone.
fn said(batch: &Batch) -> Vec<String> {
    let said = batch.changes.iter().map(|change| match change {
        Change::Slice(name, Some(_), _) => format!("+{name}"),
        Change::Slice(name, None, _) => format!("-{name}"),
        other => format!("{other:?}"),
    });
    said.collect()
}

/// What was told: a, b and c in version 1.
fn told() -> Known {
    let mut known = Known::default();
    for name in ["a", "b", "c"] {
        known.put(slice(name, "1"), &mut Batch::default());
    }
    known
}

#[test]
fn a_list_tells_what_is_new_changed_or_gone_and_nothing_else() {
    let mut known = told();
    let mut list = Listing::default();
    for object in [slice("a", "1"), slice("b", "2"), slice("d", "2")] {
        list.put(&known, object);
    }
    assert_eq!(said(&known.replace(list)), ["-n/c", "+n/b", "+n/d"]);
    assert!(known.replace_with(&["a", "b", "d"]).is_empty());
}

#[test]
fn a_version_that_is_no_number_is_always_told() {
    let mut known = Known::default();
    known.put(slice("a", "x"), &mut Batch::default());
    let mut list = Listing::default();
    list.put(&known, slice("a", "x"));
    assert_eq!(said(&known.replace(list)), ["+n/a"]);
}

#[test]
fn what_happens_while_a_list_comes_in_is_part_of_it() {
    let mut known = told();
    let mut list = Listing::default();
    for object in [slice("a", "1"), slice("b", "1"), slice("d", "2"), slice("b", "3"), slice("b", "4")] {
        list.put(&known, object);
    }
    list.delete(&gone("d"));
    list.delete(&gone("a"));
    list.keep(&known, &gone("c"));
    let mut batch = known.replace(list);
    batch.changes.sort_by_key(|change| format!("{change:?}"));
    assert_eq!(said(&batch), ["+n/b", "-n/a"].map(String::from).into_iter().rev().collect::<Vec<_>>());
}

#[test]
fn a_list_that_was_told_in_pieces_tells_the_rest_at_its_end() {
    let mut known = Known::default();
    let mut list = Listing::default();
    for name in ["a", "b", "c"] {
        list.put(&known, slice(name, "1"));
    }
    assert_eq!(said(&known.put_so_far(&mut list)), ["+n/a", "+n/b", "+n/c"]);
    list.put(&known, slice("b", "2"));
    list.put(&known, slice("d", "2"));
    list.delete(&gone("c"));
    assert_eq!(said(&known.replace(list)), ["-n/c", "+n/b", "+n/d"]);
    assert!(known.replace_with(&["a", "b", "d"]).is_empty());
}

#[test]
fn after_a_list_that_broke_off_the_next_one_tells_what_is_gone_since() {
    let mut known = Known::default();
    let mut broken = Listing::default();
    for name in ["a", "b"] {
        broken.put(&known, slice(name, "1"));
    }
    known.put_so_far(&mut broken);
    let mut list = Listing::default();
    list.put(&known, slice("a", "1"));
    list.put(&known, slice("c", "1"));
    assert_eq!(said(&known.replace(list)), ["-n/b", "+n/c"]);
}

impl Known {
    /// A list of objects in the version they have.
    fn replace_with(&mut self, names: &[&str]) -> Batch {
        let mut list = Listing::default();
        for name in names {
            let version = self.versions[&Name::of(&gone(name))].to_string();
            list.put(self, slice(name, &version));
        }
        self.replace(list)
    }
}
