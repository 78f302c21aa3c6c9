//! Lists split at every byte, and bytes that are not a list.

use prost::encoding::encode_varint;

use super::*;

fn field(tag: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_varint(u64::from(tag << 3 | 2), &mut bytes);
    encode_varint(content.len() as u64, &mut bytes);
    [bytes.as_slice(), content].concat()
}

fn number(tag: u32, value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_varint(u64::from(tag << 3), &mut bytes);
    encode_varint(value, &mut bytes);
    bytes
}

fn list(content: &[Vec<u8>]) -> Vec<u8> {
    let tail = [field(3, b""), field(4, b"")].concat();
    [MAGIC, &field(1, &field(2, b"ServiceList")), &field(2, &content.concat()), &tail].concat()
}

fn metadata(version: &str) -> Vec<u8> {
    field(1, &field(2, version.as_bytes()))
}

fn items(list: &[u8], piece: usize) -> Result<(Vec<Vec<u8>>, String), ReadError> {
    let mut parser = ProtobufParser::default();
    let mut found = Vec::new();
    for bytes in list.chunks(piece) {
        parser.feed(bytes, |item| found.push(item.to_vec()))?;
    }
    let header = parser.finish()?;
    assert_eq!(header.kind, "ServiceList");
    Ok((found, header.version))
}

#[test]
fn items_are_whole_wherever_the_list_is_split() {
    let long = vec![7; 300];
    let content = [metadata("1234"), field(2, b"one"), number(9, 1 << 40), field(2, b""), field(2, &long)];
    let list = list(&content);
    for piece in 1..=list.len() {
        let (found, version) = items(&list, piece).unwrap();
        assert_eq!(found, [b"one".to_vec(), Vec::new(), long.clone()], "pieces of {piece}");
        assert_eq!(version, "1234");
    }
}

#[test]
fn a_list_without_items_is_a_list() {
    assert_eq!(items(&list(&[metadata("7")]), 3).unwrap(), (Vec::new(), "7".to_owned()));
}

#[test]
fn half_a_list_is_an_error() {
    let whole = list(&[metadata("7"), field(2, b"one"), field(2, b"two")]);
    let tail = 4;
    for length in 0..whole.len() - tail {
        assert!(items(&whole[..length], 5).is_err(), "{length} bytes");
    }
}

#[test]
fn a_field_longer_than_its_list_is_an_error() {
    let mut whole = list(&[metadata("7"), field(2, b"one")]);
    let place = whole.windows(3).position(|bytes| bytes == b"one").unwrap() - 1;
    whole[place] = 100;
    assert!(items(&whole, 5).unwrap_err().to_string().contains("the end of a field"));
}

#[test]
fn bytes_that_are_not_protobuf_are_an_error_at_once() {
    let mut parser = ProtobufParser::default();
    parser.feed(b"{\"kind\":\"ServiceList\"", |_| unreachable!("nothing is complete")).unwrap_err();
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..64),
        piece in 1_usize..9,
    ) {
        let _ = items(&bytes, piece);
        let _ = items(&[MAGIC, &bytes].concat(), piece);
        let _ = items(&list(&[bytes]), piece);
    }
}
