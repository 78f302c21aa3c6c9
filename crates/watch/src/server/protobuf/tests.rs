//! Envelopes, and bytes of anything. That objects are read right is tried on a real API server.

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
    assert_eq!(event(&frame).unwrap(), ("ADDED", &b"content"[..]));
    assert_eq!(unwrapped(&object(b"")).unwrap(), b"");
}

#[test]
fn what_is_cut_off_is_an_error() {
    let frame = [wrapped(1, b"ADDED"), wrapped(2, &wrapped(1, &object(b"content")))].concat();
    for length in 0..frame.len() {
        assert!(event(&frame[..length]).is_err(), "{length}");
    }
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..64)) {
        let _ = event(&bytes);
        let _ = unwrapped(&bytes);
        let _ = refusal(&bytes);
        let _ = bookmark(&bytes);
        let _ = (Service::read(&bytes), EndpointSlice::read(&bytes), ServiceCidr::read(&bytes), Node::read(&bytes));
    }
}
