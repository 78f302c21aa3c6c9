//! klog's text form: `I1116 00:05:54.560151   14195 app.rs:64] "Wrote configuration" file="out.yaml"`

use std::fmt::Write;

use ferrule_config::go::{escaped, quoted};
use tracing::Level;

use super::fields::FieldValue;
use super::layer::Line;

/// The line, with its end.
pub fn render(line: &Line<'_>) -> String {
    let severity = match line.level {
        Level::ERROR => 'E',
        Level::WARN => 'W',
        _ => 'I',
    };
    let time = line.time.strftime("%m%d %H:%M:%S%.6f");
    let message = &line.fields.message;
    let message = if line.unstructured { escaped(message, &[]) } else { quoted(message) };
    let mut text = format!("{severity}{time} {:>7} {}] {message}", std::process::id(), line.caller(1));
    if let Some(error) = &line.fields.error {
        push_pair(&mut text, "err", &FieldValue::Text(error.clone()));
    }
    for (key, value) in &line.fields.others {
        push_pair(&mut text, key, value);
    }
    text.push('\n');
    text
}

/// ` key="value"`, or a block of indented lines if the value has several.
fn push_pair(text: &mut String, key: &str, value: &FieldValue) {
    // Writing to a String cannot fail.
    let _ = match value {
        FieldValue::Literal(literal) => write!(text, " {key}={literal}"),
        FieldValue::Text(value) if value.contains('\n') => {
            // Each line of it begins with a tab, so none can pass for a line of the log.
            let block = escaped(value, &['\n', '\t']).replace('\n', "\n\t");
            write!(text, " {key}=<\n\t{block}\n >")
        }
        FieldValue::Text(value) => write!(text, " {key}={}", quoted(value)),
    };
}
