//! Envelopes and arbitrary bytes. The content of objects is tested against a real API server.

use super::super::events::Bookmark;
use super::*;

fn wrapped(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    assert!(length < 128, "one byte of length");
    [&[tag << 3 | 2, length], content].concat()
}

fn object(content: &[u8]) -> Vec<u8> {
    [MAGIC, &wrapped(1, b"kind"), &wrapped(2, content)].concat()
}

#[test]
fn an_event_is_taken_out_of_its_envelopes() {
    let frame = [wrapped(1, b"ADDED"), wrapped(2, &wrapped(1, &object(b"content")))].concat();
    let (kind, envelope) = event(&frame).unwrap();
    assert_eq!((kind, strip_envelope(envelope).unwrap()), ("ADDED", &b"content"[..]));
    assert_eq!(strip_envelope(&object(b"")).unwrap(), b"");
}

#[test]
fn an_envelope_has_the_type_of_its_object() {
    let type_meta_bytes = [wrapped(1, b"v1"), wrapped(2, b"Service")].concat();
    let object = [MAGIC, &wrapped(1, &type_meta_bytes), &wrapped(2, b"content")].concat();
    let found = type_meta(&object).unwrap();
    assert_eq!((&*found.api_version, &*found.kind), ("v1", "Service"));
}

#[test]
fn what_is_cut_off_is_an_error() {
    let frame = [wrapped(1, b"ADDED"), wrapped(2, &wrapped(1, &object(b"content")))].concat();
    for length in 0..frame.len() {
        assert!(event(&frame[..length]).is_err(), "{length}");
    }
}

#[test]
fn an_annotation_that_is_no_text_costs_nothing() {
    let annotation = [wrapped(1, b"note"), wrapped(2, b"\xff\xfe")].concat();
    let label = [wrapped(1, b"kubernetes.io/service-name"), wrapped(2, b"web")].concat();
    let fields = [
        wrapped(1, b"web-1"),
        wrapped(3, b"shop"),
        wrapped(6, b"7"),
        wrapped(12, &annotation),
        wrapped(11, &label),
    ];
    let object = wrapped(1, &fields.concat());
    let slice = EndpointSlice::decode_object(&object).unwrap();
    assert_eq!((slice.metadata.name.as_str(), slice.metadata.resource_version.as_str()), ("web-1", "7"));
    assert_eq!(slice.metadata.labels.service_name.as_deref(), Some("web"));
}

#[test]
fn the_bookmark_that_ends_a_streaming_list_is_recognised() {
    let end = [wrapped(1, b"k8s.io/initial-events-end"), wrapped(2, b"true")].concat();
    let mark = |more: &[u8]| wrapped(1, &[&wrapped(6, b"7"), more].concat());
    assert!(!bookmark(&mark(b"")).unwrap().ends_list);
    assert_eq!(
        bookmark(&mark(&wrapped(12, &end))).unwrap(),
        Bookmark { version: "7".to_owned(), ends_list: true }
    );
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..64)) {
        let _ = event(&bytes);
        let _ = (strip_envelope(&bytes), type_meta(&bytes), decode_type_meta(&bytes));
        let _ = api_status(&bytes);
        let _ = (bookmark(&bytes), metadata(&bytes));
        let _ = (Service::decode_object(&bytes), EndpointSlice::decode_object(&bytes), ServiceCidr::decode_object(&bytes), Node::decode_object(&bytes));
    }
}
