//! Records the log of a source.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

/// The lines of one source.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<(Level, String)>>>);

impl Log {
    /// Records the log of some code, including the threads it starts.
    pub fn record<T>(&self, code: impl FnOnce() -> T) -> T {
        tracing::subscriber::with_default(tracing_subscriber::registry().with(self.clone()), code)
    }

    /// The lines at the default verbosity.
    pub fn visible(&self) -> Vec<String> {
        let lines = self.0.lock().unwrap();
        lines.iter().filter(|(level, _)| *level <= Level::INFO).map(|(_, line)| line.clone()).collect()
    }

    pub fn contains(&self, text: &str) -> bool {
        self.count(text) > 0
    }

    /// Number of lines with a text.
    pub fn count(&self, text: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|(_, line)| line.contains(text)).count()
    }
}

impl<S: Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        // Not the log of libraries.
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
