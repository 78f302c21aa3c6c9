//! Events of a watch, well-formed and not.

use ferrule_model::ObjectKind;

use super::*;

fn wanted() -> TypeName {
    TypeName::for_kind(ObjectKind::Service)
}

#[test]
fn the_bookmark_that_ends_a_streaming_list_is_recognised() {
    let read = |annotations: &str| {
        let line = format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{{\"kind\":\"Service\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"7\"{annotations}}}}}}}"
        );
        match Event::decode(Raw::json(line.as_bytes()), wanted()).unwrap() {
            Event::Bookmark(Bookmark { version, ends_list }) => (version, ends_list),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(read(""), ("7".into(), false));
    assert_eq!(read(",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}"), ("7".into(), true));
}

#[test]
fn objects_are_passed_on_undecoded() {
    let object = "{ \"a\":[1, 2], \"kind\":\"Service\",\"apiVersion\":\"v1\" }";
    let line = format!("{{\"object\" : {object} ,\"type\":\"MODIFIED\"}}");
    let read = Event::decode(Raw::json(line.as_bytes()), wanted()).unwrap();
    assert!(matches!(read, Event::Put(found) if found.bytes == object.as_bytes()));
    let later = b"{\"type\":\"EXPLODED\",\"object\":{}}";
    assert!(matches!(Event::decode(Raw::json(later), wanted()).unwrap(), Event::Unknown));
}

/// An API server that mixes up its watches must not make us remove what exists.
#[test]
fn an_event_about_an_object_of_another_kind_or_group_is_an_error() {
    let pod = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web","namespace":"default"}}"#;
    let other_group = r#"{"kind":"Service","apiVersion":"serving.knative.dev/v1","metadata":{"name":"web"}}"#;
    for object in [pod, other_group, "{}"] {
        for kind in ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"] {
            let line = format!(r#"{{"type":"{kind}","object":{object}}}"#);
            let read = Event::decode(Raw::json(line.as_bytes()), wanted());
            assert!(matches!(read, Err(ReadError::OtherType { .. })), "{line}");
        }
    }
    let status = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","code":410}}"#;
    assert!(matches!(Event::decode(Raw::json(status.as_bytes()), wanted()), Ok(Event::Error(_))));
}

proptest::proptest! {
    #[test]
    fn nothing_makes_it_panic(kind in "ADDED|DELETED|BOOKMARK|ERROR|X", object in "[\\[\\]{}\",:\\\\a]*") {
        let _ = Event::decode(Raw::json(format!("{{\"type\":\"{kind}\",\"object\":{object}}}").as_bytes()), wanted());
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..64)) {
        for encoding in [Encoding::Json, Encoding::Protobuf] {
            let complete = complete_length(encoding, &bytes, 0);
            assert!(complete <= bytes.len());
            let frame = EventFrame { encoding, bytes: bytes[..complete].to_vec() };
            frame.events(wanted()).for_each(drop);
        }
    }
}

#[test]
fn frames_are_read_however_they_are_cut() {
    let frame = |text: &[u8]| [&u32::try_from(text.len()).unwrap().to_be_bytes()[..], text].concat();
    let all = [frame(b"one"), frame(b""), frame(b"three")].concat();
    assert_eq!(complete_length(Encoding::Protobuf, &all, 0), all.len());
    assert_eq!(complete_length(Encoding::Protobuf, &all[..all.len() - 1], 0), 11);
    assert_eq!(complete_length(Encoding::Protobuf, &all[..3], 0), 0);
    assert_eq!(split_first(Encoding::Protobuf, &all), Some((&b"one"[..], &all[7..])));
}
