//! The `tracing` layer that turns events into lines.

use std::sync::Arc;

use ferrule_config::settings::LogFormat;
use jiff::Zoned;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::fields::{EventFields, FieldValue};
use super::queue::Importance;
use super::sink::Sink;
use super::verbosity::{Verbosity, of_level};
use super::{UNSTRUCTURED, json, text};

/// The contents of one line.
#[derive(Debug)]
pub struct Line<'a> {
    /// When.
    pub time: &'a Zoned,
    /// The severity.
    pub level: Level,
    /// The source file.
    pub file: &'a str,
    /// The line in it.
    pub row: u32,
    /// Its verbosity.
    pub verbosity: u32,
    /// Whether the message is written without quotes.
    pub unstructured: bool,
    /// The message and its fields.
    pub fields: &'a EventFields,
}

impl Line<'_> {
    /// Where it was logged: the last parts of the source file's path, and the line.
    pub fn caller(&self, parts: usize) -> String {
        let kept: Vec<&str> = self.file.rsplit('/').take(parts).collect();
        let path: Vec<&str> = kept.into_iter().rev().collect();
        format!("{}:{}", path.join("/"), self.row)
    }

    /// The formatted line with its line end.
    pub fn rendered(&self, format: LogFormat) -> String {
        match format {
            LogFormat::Text => text::render(self),
            LogFormat::Json => json::render(self),
        }
    }
}

/// Writes events to a sink if the verbosity allows.
#[derive(Debug)]
pub struct KlogLayer {
    pub(super) verbosity: Arc<Verbosity>,
    pub(super) sink: Arc<Sink>,
}

impl KlogLayer {
    fn shows(&self, metadata: &Metadata<'_>, verbosity: u32) -> bool {
        *metadata.level() <= Level::WARN
            || self.verbosity.shows(verbosity, metadata.file().unwrap_or_default())
    }
}

impl<S: Subscriber> Layer<S> for KlogLayer {
    /// Not cached: the verbosity can change at any time.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        // An event with a field `v` is filtered when its value is known. Spans are not shown, and libraries have many.
        !metadata.is_span()
            && (metadata.fields().field("v").is_some() || self.shows(metadata, of_level(metadata)))
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let mut fields = EventFields::default();
        event.record(&mut fields);
        let verbosity = fields.verbosity.unwrap_or(of_level(metadata));
        if !self.shows(metadata, verbosity) {
            return;
        }
        let line = Line {
            time: &Zoned::now(),
            level: *metadata.level(),
            file: metadata.file().unwrap_or("unknown"),
            row: metadata.line().unwrap_or(0),
            verbosity,
            unstructured: metadata.target() == UNSTRUCTURED,
            fields: &fields,
        };
        let importance = if *metadata.level() == Level::ERROR { Importance::Error } else { Importance::Info };
        self.sink.write(importance, line.rendered(self.sink.format()));
    }
}

/// A warning about the log itself, which is not an event.
pub fn notice(format: LogFormat, message: &str, numbers: &[(&'static str, String)]) -> String {
    let others = numbers.iter().map(|(key, value)| (*key, FieldValue::Literal(value.clone()))).collect();
    let fields = EventFields { message: message.to_owned(), others, ..EventFields::default() };
    let (file, row) = (file!(), line!());
    let (time, level) = (&Zoned::now(), Level::WARN);
    let line = Line { time, level, file, row, verbosity: 0, unstructured: false, fields: &fields };
    line.rendered(format)
}
