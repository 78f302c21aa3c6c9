//! Lists compared with what was reported before.

use ferrule_model::{Change, NodeName, ObjectKind};
use serde_json::json;

use super::*;
use crate::server::events::{Encoding, Raw};
use crate::server::resource::Resource;

fn slices() -> Resource {
    Resource::new(ObjectKind::EndpointSlice, &NodeName::new("a"), Encoding::Json)
}

fn slice(name: &str, version: &str) -> DecodedObject {
    let labels = json!({ "kubernetes.io/service-name": "web" });
    let metadata = json!({ "namespace": "n", "name": name, "resourceVersion": version, "labels": labels });
    slices()
        .decode(Raw::json(json!({ "addressType": "IPv4", "metadata": metadata }).to_string().as_bytes()))
        .unwrap()
}

fn deletion(name: &str) -> Change {
    let json = json!({ "metadata": { "namespace": "n", "name": name } }).to_string();
    slices().decode_deletion(Raw::json(json.as_bytes())).unwrap().change.unwrap()
}

/// The changes of a batch in order: `+` for an object that exists, `-` for one that was removed.
fn summary(batch: &ChangeBatch) -> Vec<String> {
    let summary = batch.changes.iter().map(|change| match change {
        Change::Slice(name, Some(_), _) => format!("+{name}"),
        Change::Slice(name, None, _) => format!("-{name}"),
        other => format!("{other:?}"),
    });
    summary.collect()
}

/// a, b and c, each in version 1.
fn three_slices() -> SeenVersions {
    let mut seen = SeenVersions::default();
    for name in ["a", "b", "c"] {
        seen.put(slice(name, "1"), &mut ChangeBatch::default());
    }
    seen
}

#[test]
fn a_list_is_reduced_to_what_is_new_changed_or_removed() {
    let mut seen = three_slices();
    let mut list = PendingList::default();
    for object in [slice("a", "1"), slice("b", "2"), slice("d", "2")] {
        list.put(&seen, object);
    }
    assert_eq!(seen.missing_from(&list), Missing { known: 3, removed: 1 });
    assert_eq!(summary(&seen.replace(list)), ["-n/c", "+n/b", "+n/d"]);
    assert!(seen.replace_with(&["a", "b", "d"]).is_empty());
}

#[test]
fn an_object_whose_version_is_not_a_number_is_always_reported() {
    let mut seen = SeenVersions::default();
    seen.put(slice("a", "x"), &mut ChangeBatch::default());
    let mut list = PendingList::default();
    list.put(&seen, slice("a", "x"));
    assert_eq!(summary(&seen.replace(list)), ["+n/a"]);
}

#[test]
fn changes_while_a_list_arrives_are_part_of_it() {
    let mut seen = three_slices();
    let mut list = PendingList::default();
    for object in [slice("a", "1"), slice("b", "1"), slice("d", "2"), slice("b", "3"), slice("b", "4")] {
        list.put(&seen, object);
    }
    list.delete(&deletion("d"));
    list.delete(&deletion("a"));
    list.keep(&seen, &deletion("c"));
    let mut batch = seen.replace(list);
    batch.changes.sort_by_key(|change| format!("{change:?}"));
    assert_eq!(summary(&batch), ["+n/b", "-n/a"].map(String::from).into_iter().rev().collect::<Vec<_>>());
}

#[test]
fn a_list_reported_in_chunks_reports_the_rest_at_its_end() {
    let mut seen = SeenVersions::default();
    let mut list = PendingList::default();
    for name in ["a", "b", "c"] {
        list.put(&seen, slice(name, "1"));
    }
    assert_eq!(summary(&seen.take_chunk(&mut list)), ["+n/a", "+n/b", "+n/c"]);
    list.put(&seen, slice("b", "2"));
    list.put(&seen, slice("d", "2"));
    list.delete(&deletion("c"));
    assert_eq!(summary(&seen.replace(list)), ["-n/c", "+n/b", "+n/d"]);
    assert!(seen.replace_with(&["a", "b", "d"]).is_empty());
}

#[test]
fn after_a_list_that_broke_off_the_next_one_reports_what_was_removed_since() {
    let mut seen = SeenVersions::default();
    let mut broken = PendingList::default();
    for name in ["a", "b"] {
        broken.put(&seen, slice(name, "1"));
    }
    seen.take_chunk(&mut broken);
    let mut list = PendingList::default();
    list.put(&seen, slice("a", "1"));
    list.put(&seen, slice("c", "1"));
    assert_eq!(summary(&seen.replace(list)), ["-n/b", "+n/c"]);
}

impl SeenVersions {
    /// Replaces everything by a list of these objects, each in the version it has.
    fn replace_with(&mut self, names: &[&str]) -> ChangeBatch {
        let mut list = PendingList::default();
        for name in names {
            let version = self.versions[&Name::from_change(&deletion(name))].to_string();
            list.put(self, slice(name, &version));
        }
        self.replace(list)
    }
}
