//! Lines of a watch, and lines of anything.

use super::*;

#[test]
fn the_end_of_a_streaming_list_is_told_from_other_bookmarks() {
    let read = |annotations: &str| {
        let line = format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"7\"{annotations}}}}}}}"
        );
        match Event::read(line.as_bytes()).unwrap() {
            Event::Bookmark { version, list_is_complete } => (version, list_is_complete),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(read(""), ("7".into(), false));
    assert_eq!(read(",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}"), ("7".into(), true));
}

#[test]
fn objects_are_left_as_they_came() {
    let line = b"{\"object\" : { \"a\":[1, 2] } ,\"type\":\"MODIFIED\"}";
    assert!(matches!(Event::read(line).unwrap(), Event::Put(object) if object == b"{ \"a\":[1, 2] }"));
    let later = b"{\"type\":\"EXPLODED\",\"object\":{}}";
    assert!(matches!(Event::read(later).unwrap(), Event::Unknown));
}

proptest::proptest! {
    #[test]
    fn nothing_makes_it_panic(kind in "ADDED|DELETED|BOOKMARK|ERROR|X", object in "[\\[\\]{}\",:\\\\a]*") {
        let _ = Event::read(format!("{{\"type\":\"{kind}\",\"object\":{object}}}").as_bytes());
    }
}
