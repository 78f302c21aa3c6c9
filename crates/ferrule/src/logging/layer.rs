//! The `tracing` layer that turns events into lines.

use std::sync::Arc;

use jiff::Zoned;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::fields::EventFields;
use super::sink::{Importance, Sink};
use super::verbosity::{Verbosity, of_level};
use super::{UNSTRUCTURED, json, text};
use crate::settings::LogFormat;

/// Everything one line is made of.
#[derive(Debug)]
pub struct Line<'a> {
    /// When.
    pub time: &'a Zoned,
    /// How bad.
    pub level: Level,
    /// The source file's name and line.
    pub caller: String,
    /// Its verbosity.
    pub verbosity: u32,
    /// Whether the message stands without quotes.
    pub unstructured: bool,
    /// What it says.
    pub fields: &'a EventFields,
}

/// Writes events to a sink, as far as the verbosity lets them.
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
    /// Never for good: the verbosity can change while the program runs.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        // An event with a verbosity of its own is judged when its value is known.
        metadata.is_span()
            || metadata.fields().field("v").is_some()
            || self.shows(metadata, of_level(metadata))
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
            caller: caller(metadata),
            verbosity,
            unstructured: metadata.target() == UNSTRUCTURED,
            fields: &fields,
        };
        let rendered = match self.sink.format() {
            LogFormat::Text => text::render(&line),
            LogFormat::Json => json::render(&line),
        };
        let importance = if *metadata.level() == Level::ERROR { Importance::Error } else { Importance::Info };
        self.sink.write(importance, &rendered);
    }
}

fn caller(metadata: &Metadata<'_>) -> String {
    let file = metadata.file().unwrap_or("unknown");
    let name = file.rsplit('/').next().unwrap_or(file);
    format!("{name}:{}", metadata.line().unwrap_or(0))
}
