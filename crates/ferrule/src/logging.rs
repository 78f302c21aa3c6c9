//! The log: klog's text lines or JSON objects, from `tracing` events.
//!
//! Levels map to klog's severities and verbosities: `error` and `warn` always show, `info` is verbosity 0, `debug` 2,
//! `trace` 4; a field `v` says another one. Installed once, as text, and configured again when the settings are known
//! or change. Nothing is written unless an event happens.
//!
//! Whoever logs never waits: lines go through a bounded queue to a thread that writes them. Values are cut at a length that
//! one line can bear, and characters that do not print are escaped, since names and errors come from others.

mod bounded;
mod fields;
mod json;
mod last_words;
mod layer;
mod queue;
mod sink;
mod text;
mod verbosity;
mod writer;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

use crate::settings::LoggingSettings;
pub use last_words::last_words;
use layer::KlogLayer;
use sink::Sink;
use verbosity::Verbosity;

/// The target of events whose message is written as it is, without quotes.
pub const UNSTRUCTURED: &str = "ferrule::unstructured";

/// How long a flush may take: whoever reads the log may have stopped, and the process must end all the same.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);

/// The log of this process, once it is installed.
static INSTALLED: OnceLock<LogHandle> = OnceLock::new();

/// A way to the installed log.
#[derive(Clone, Debug)]
pub struct LogHandle {
    verbosity: Arc<Verbosity>,
    sink: Arc<Sink>,
}

impl Default for LogHandle {
    /// Text on stderr; nothing arrives there until it is installed.
    fn default() -> Self {
        Self { verbosity: Arc::default(), sink: Arc::new(Sink::standard_streams()) }
    }
}

impl LogHandle {
    /// Takes over new settings, for lines from now on.
    pub fn configure(&self, settings: &LoggingSettings) {
        self.verbosity.configure(settings);
        self.sink.configure(settings);
    }

    /// Sets the verbosity alone, as `/debug/flags/v` does.
    pub fn set_verbosity(&self, verbosity: u32) {
        self.verbosity.set(verbosity);
    }

    /// Writes out what is buffered, within two seconds or not at all.
    pub fn flush(&self) {
        self.sink.flush(FLUSH_LIMIT);
    }

    /// How many lines were dropped since the start, because nobody read them in time or they could not be written.
    pub fn dropped(&self) -> u64 {
        self.sink.dropped()
    }
}

/// Installs the log for the whole process: text on stderr, verbosity 0.
///
/// If another log is installed already (as in a test), that one stays.
pub fn install() -> LogHandle {
    let handle = LogHandle::default();
    if tracing::subscriber::set_global_default(registry().with(layer(&handle))).is_ok() {
        let _ = INSTALLED.set(handle.clone());
    }
    handle
}

fn layer(handle: &LogHandle) -> KlogLayer {
    KlogLayer { verbosity: Arc::clone(&handle.verbosity), sink: Arc::clone(&handle.sink) }
}

#[cfg(test)]
pub(crate) mod captured;
#[cfg(test)]
mod tests;
