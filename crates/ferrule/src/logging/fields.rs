//! The fields of one event, gathered for printing.

use std::error::Error;
use std::fmt::{self, Debug};

use tracing::field::{Field, Visit};

use super::bounded::BoundedText;

/// The message is ours, but for flags and gates that are quoted in it.
const MAX_MESSAGE: usize = 16 * 1024;
/// An invalid configuration lists everything that is wrong with it.
const MAX_ERROR: usize = 4 * 1024;
/// Names, fields of objects, output of other programs.
const MAX_VALUE: usize = 1024;

/// A field's value; the formats distinguish two kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// Anything with a text.
    Text(String),
    /// A number or a boolean, which stands without quotes.
    Literal(String),
}

/// An event's message, verbosity and other fields, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFields {
    /// The message.
    pub message: String,
    /// The field `v`, if there is one.
    pub verbosity: Option<u32>,
    /// The field `err`, which comes first in print.
    pub error: Option<String>,
    /// All others.
    pub others: Vec<(&'static str, FieldValue)>,
}

impl EventFields {
    fn text(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        let limit = match field.name() {
            "message" => MAX_MESSAGE,
            "err" => MAX_ERROR,
            _ => MAX_VALUE,
        };
        let text = BoundedText::format(limit, value);
        match field.name() {
            "message" => self.message = text,
            "err" => self.error = Some(text),
            name => self.others.push((name, FieldValue::Text(text))),
        }
    }

    fn literal(&mut self, field: &Field, text: String) {
        match field.name() {
            "v" => self.verbosity = text.parse().ok(),
            name => self.others.push((name, FieldValue::Literal(text))),
        }
    }
}

impl Visit for EventFields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.text(field, format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, format_args!("{value}"));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.text(field, format_args!("{value}"));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.literal(field, value.to_string());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.literal(field, value.to_string());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no infinity and NaN.
        if value.is_finite() {
            self.literal(field, value.to_string());
        } else {
            self.text(field, format_args!("{value}"));
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.literal(field, value.to_string());
    }
}
