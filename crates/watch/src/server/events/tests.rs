//! Lines of a watch, and lines of anything.

use super::*;

#[test]
fn the_end_of_a_streaming_list_is_told_from_other_bookmarks() {
    let read = |annotations: &str| {
        let line = format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"7\"{annotations}}}}}}}"
        );
        match Event::read(Raw::json(line.as_bytes())).unwrap() {
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
    assert!(
        matches!(Event::read(Raw::json(line)).unwrap(), Event::Put(object) if object.bytes == b"{ \"a\":[1, 2] }")
    );
    let later = b"{\"type\":\"EXPLODED\",\"object\":{}}";
    assert!(matches!(Event::read(Raw::json(later)).unwrap(), Event::Unknown));
}

proptest::proptest! {
    #[test]
    fn nothing_makes_it_panic(kind in "ADDED|DELETED|BOOKMARK|ERROR|X", object in "[\\[\\]{}\",:\\\\a]*") {
        let _ = Event::read(Raw::json(format!("{{\"type\":\"{kind}\",\"object\":{object}}}").as_bytes()));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..64)) {
        for encoding in [Encoding::Json, Encoding::Protobuf] {
            let complete = complete(encoding, &bytes, 0);
            assert!(complete <= bytes.len());
            let together = Together { encoding, bytes: bytes[..complete].to_vec() };
            together.each().for_each(drop);
        }
    }
}

#[test]
fn frames_are_read_however_they_are_cut() {
    let frame = |text: &[u8]| [&u32::try_from(text.len()).unwrap().to_be_bytes()[..], text].concat();
    let all = [frame(b"one"), frame(b""), frame(b"three")].concat();
    assert_eq!(complete(Encoding::Protobuf, &all, 0), all.len());
    assert_eq!(complete(Encoding::Protobuf, &all[..all.len() - 1], 0), 11);
    assert_eq!(complete(Encoding::Protobuf, &all[..3], 0), 0);
    assert_eq!(split(Encoding::Protobuf, &all), Some((&b"one"[..], &all[7..])));
}
