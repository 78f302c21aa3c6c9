//! The JSON form: one object per line with `ts`, `caller`, `msg`, `v` or `err`, then the fields.

use std::fmt::Write as _;

use ferrule_config::go::is_printable;
use tracing::Level;

use super::fields::FieldValue;
use super::layer::Line;

/// The line, with its end.
pub fn render(line: &Line<'_>) -> String {
    let mut text = format!(
        "{{\"ts\":{},\"caller\":{},\"msg\":{}",
        milliseconds(line),
        string(&line.caller(2)),
        string(&line.fields.message)
    );
    if line.level != Level::ERROR {
        push(&mut text, "v", &line.verbosity.to_string());
    }
    if let Some(error) = &line.fields.error {
        push(&mut text, "err", &string(error));
    }
    for (key, value) in &line.fields.others {
        match value {
            FieldValue::Literal(literal) => push(&mut text, key, literal),
            FieldValue::Text(value) => push(&mut text, key, &string(value)),
        }
    }
    text.push_str("}\n");
    text
}

/// Milliseconds since 1970, with microseconds behind the point.
fn milliseconds(line: &Line<'_>) -> String {
    let microseconds = line.time.timestamp().as_microsecond();
    format!("{}.{:03}", microseconds.div_euclid(1000), microseconds.rem_euclid(1000))
}

fn push(text: &mut String, key: &str, value: &str) {
    text.push(',');
    text.push_str(&string(key));
    text.push(':');
    text.push_str(value);
}

/// A JSON string in which also those characters are escaped that JSON allows and terminals act on; it reads back the same.
fn string(text: &str) -> String {
    let json = serde_json::Value::String(text.to_owned()).to_string();
    if json.chars().all(is_printable) {
        return json;
    }
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_printable(c) {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}
