//! What is written reads back, and looks as kube-proxy writes it.

use proptest::prelude::*;

use super::*;
use crate::config::decode::decode;
use crate::config::defaults::fill_defaults;
use crate::go::GoDuration;

#[test]
fn what_is_written_reads_back() {
    let mut configuration = KubeProxyConfiguration::default();
    fill_defaults(&mut configuration);
    configuration.node_port_addresses = Some(vec!["primary".to_owned(), "::/0".to_owned()]);
    configuration.feature_gates.insert("AllAlpha".to_owned(), true);
    let read = decode(encode(&configuration).as_bytes()).expect("reads back");
    assert_eq!(read.configuration, configuration);
    assert_eq!(read.warnings, [""; 0]);
}

#[test]
fn keys_are_sorted_at_every_level() {
    let text = encode(&KubeProxyConfiguration::default());
    for indent in ["", "  "] {
        let mut block: Vec<&str> = Vec::new();
        for line in text.lines() {
            match line.strip_prefix(indent).filter(|rest| !rest.starts_with([' ', '-'])) {
                Some(key) => block.push(key),
                None if !line.starts_with(indent) => block.clear(),
                None => {}
            }
            assert!(block.is_sorted(), "{block:?}");
        }
    }
}

#[test]
fn fields_that_say_nothing_are_left_out_where_the_api_does() {
    let text = encode(&KubeProxyConfiguration::default());
    for absent in [
        "featureGates",
        "windowsRunAsService",
        "splitStream",
        "vmodule",
        "udpIdleTimeout",
        "resourceContainer",
    ] {
        assert!(!text.contains(absent), "{absent}");
    }
    assert!(text.contains("nodePortAddresses: null\n"));
    assert!(text.contains("infoBufferSize: \"0\"\n"));
}

proptest! {
    #[test]
    fn every_configuration_reads_back_as_itself(
        text in "[-a-z0-9:#'\" ./,]{0,12}",
        number: i32,
        nanoseconds: i64,
        list in prop::option::of(prop::collection::vec("[-a-z0-9:./]{0,8}", 0..3)),
        on: bool,
    ) {
        let mut configuration = KubeProxyConfiguration::default();
        for field in fields::all().filter(|field| field.age == Age::Current) {
            let mut slot = (field.slot)(&mut configuration);
            for value in [
                Value::Text(text.clone()),
                Value::Int32(number),
                Value::Uint32(number.unsigned_abs()),
                Value::Float32(1.5),
                Value::Bool(on),
                Value::Duration(GoDuration::nanoseconds(nanoseconds)),
            ] {
                let _ = slot.put(value);
            }
            if let Some(list) = &list {
                let _ = slot.put(Value::TextList(list.clone()));
            }
        }
        let read = decode(encode(&configuration).as_bytes()).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(read.configuration, configuration);
    }
}
