//! The fields of one event, gathered for printing.

use std::error::Error;
use std::fmt::Debug;

use tracing::field::{Field, Visit};

/// A field's value, in the two kinds the formats tell apart.
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
    fn text(&mut self, field: &Field, text: String) {
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
        self.text(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value.to_owned());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.text(field, value.to_string());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.literal(field, value.to_string());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.literal(field, value.to_string());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no word for infinity and NaN.
        if value.is_finite() {
            self.literal(field, value.to_string());
        } else {
            self.text(field, value.to_string());
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.literal(field, value.to_string());
    }
}
