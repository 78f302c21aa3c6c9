//! What a source writes to the log.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

/// The lines of one source.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<(Level, String)>>>);

impl Log {
    /// Records what is logged by some code, and by the threads it starts.
    pub fn record<T>(&self, code: impl FnOnce() -> T) -> T {
        tracing::subscriber::with_default(tracing_subscriber::registry().with(self.clone()), code)
    }

    /// What an operator sees who has not asked for more.
    pub fn visible(&self) -> Vec<String> {
        let lines = self.0.lock().unwrap();
        lines.iter().filter(|(level, _)| *level <= Level::INFO).map(|(_, line)| line.clone()).collect()
    }

    /// Whether a line holds a text.
    pub fn says(&self, text: &str) -> bool {
        self.times(text) > 0
    }

    /// How many lines hold a text.
    pub fn times(&self, text: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|(_, line)| line.contains(text)).count()
    }
}

impl<S: Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        // The libraries below have their own words.
        if event.metadata().target().starts_with("ferrule") {
            let mut line = Line(event.metadata().level().to_string());
            event.record(&mut line);
            self.0.lock().unwrap().push((*event.metadata().level(), line.0));
        }
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}
