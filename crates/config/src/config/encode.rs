//! A configuration to YAML, in the form `kube-proxy --write-config-to` writes: keys sorted, block style.
//!
//! Quoting follows Go's YAML writer, so that the files of both programs can be compared byte by byte.

mod yaml;

use std::collections::BTreeMap;

use super::fields::{self, Age, Field};
use super::slot::Value;
use super::v1alpha1::{API_VERSION, FlushSpelling, KIND, KubeProxyConfiguration};
use crate::go::format_float32;
use yaml::Out;

/// The whole file.
pub fn encode(configuration: &KubeProxyConfiguration) -> String {
    let mut root = BTreeMap::new();
    root.insert("apiVersion".to_owned(), Out::Scalar(API_VERSION.to_owned()));
    root.insert("kind".to_owned(), Out::Scalar(KIND.to_owned()));
    for field in fields::all().filter(|field| field.age == Age::Current) {
        let value = field.value(configuration);
        if !is_left_out(field, &value) {
            insert(&mut root, field.path, out(&value));
        }
    }
    Out::Map(root).render()
}

/// The text of a value that is one word, as it would stand in the file; `None` for lists and maps.
#[cfg(test)]
pub fn scalar_text(value: &Value) -> Option<String> {
    match out(value) {
        Out::Scalar(text) if text != "null" => Some(text),
        _ => None,
    }
}

/// Fields the API marks as left out when they say nothing.
pub fn is_left_out(field: &Field, value: &Value) -> bool {
    match value {
        Value::Gates(gates) => gates.is_empty(),
        Value::VModule(items) => items.is_empty(),
        Value::Bool(false) => matches!(field.name(), "windowsRunAsService" | "splitStream"),
        _ => false,
    }
}

fn insert(map: &mut BTreeMap<String, Out>, path: &str, value: Out) {
    match path.split_once('.') {
        None => {
            map.insert(path.to_owned(), value);
        }
        Some((group, rest)) => {
            let inner = map.entry(group.to_owned()).or_insert_with(|| Out::Map(BTreeMap::new()));
            if let Out::Map(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

fn out(value: &Value) -> Out {
    let number = |text: String| Out::Scalar(text);
    match value {
        Value::Bool(value) => Out::Scalar(value.to_string()),
        Value::Int32(value) => number(value.to_string()),
        Value::Uint32(value) => number(value.to_string()),
        // Adding zero takes the sign off a negative zero, which is an integer by the time Go writes it.
        Value::Float32(value) => number(format_float32(*value + 0.0)),
        Value::Text(text) => Out::text(text),
        Value::Duration(duration) => Out::text(&duration.to_string()),
        Value::Flush(flush) => match flush.spelling {
            FlushSpelling::Text => Out::text(&flush.every.to_string()),
            FlushSpelling::Nanoseconds => number(flush.every.as_nanoseconds().to_string()),
        },
        Value::TextList(list) => Out::List(list.iter().map(|text| Out::text(text)).collect()),
        Value::Gates(gates) => {
            Out::Map(gates.iter().map(|(name, on)| (name.clone(), Out::Scalar(on.to_string()))).collect())
        }
        Value::VModule(items) => Out::List(
            items
                .iter()
                .map(|item| {
                    Out::Map(BTreeMap::from([
                        ("filePattern".to_owned(), Out::text(&item.file_pattern)),
                        ("verbosity".to_owned(), number(item.verbosity.to_string())),
                    ]))
                })
                .collect(),
        ),
        Value::Quantity(quantity) => Out::text(&quantity.to_string()),
        Value::Absent => Out::Scalar("null".to_owned()),
    }
}

#[cfg(test)]
mod tests;
