//! Ranges, and input of any kind.

use super::*;
use crate::netlink::Attributes;

fn ranges() -> SeenSet {
    let key = |last: u8| KeyBytes::from_slice(&[10, 0, 0, last]);
    let elements = [
        (key(0), ElementValue::RangeEnd),
        (key(4), ElementValue::Present),
        (key(8), ElementValue::RangeEnd),
        (key(16), ElementValue::Present),
    ];
    SeenSet { key_length: 4, is_interval: true, elements: elements.into(), ..SeenSet::default() }
}

#[test]
fn a_range_contains_its_first_key_and_not_the_one_behind_it() {
    let set = ranges();
    let contains = |last: u8| set.find(&[10, 0, 0, last]).is_some();
    assert_eq!([3, 4, 7, 8, 15, 16, 255].map(contains), [false, true, true, false, false, true, true]);
    assert!(set.find(&[9, 255, 255, 255]).is_none(), "before all of them");
}

#[test]
fn single_keys_are_found_exactly() {
    let set = SeenSet { is_interval: false, ..ranges() };
    assert!(set.find(&[10, 0, 0, 4]).is_some());
    assert!(set.find(&[10, 0, 0, 5]).is_none());
}

#[test]
fn any_bytes_can_be_decoded() {
    for length in 0..64_usize {
        for byte in [0_u8, 1, 2, 8, 0x7f, 0xff] {
            let bytes = vec![byte; length];
            let attributes = Attributes::new(&bytes);
            let _ = decode::entry(attributes);
            let _ = decode::instructions(attributes, crate::nft::Family::Ip);
            let _ = decode::set(attributes);
            let _ = decode::element(attributes);
        }
    }
}
