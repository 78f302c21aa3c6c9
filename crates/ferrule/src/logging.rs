//! The log: klog's text lines or JSON objects, from `tracing` events.
//!
//! Levels map to klog's severities and verbosities: `error` and `warn` always show, `info` is verbosity 0, `debug` 2,
//! `trace` 4; a field `v` says another one. Installed once, as text, and configured again when the settings are known
//! or change. Nothing is written unless an event happens.

mod fields;
mod json;
mod layer;
mod sink;
mod text;
mod verbosity;

use std::sync::Arc;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

use crate::settings::LoggingSettings;
use layer::KlogLayer;
use sink::Sink;
use verbosity::Verbosity;

/// The target of events whose message is written as it is, without quotes.
pub const UNSTRUCTURED: &str = "ferrule::unstructured";

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

    /// Writes out what is buffered.
    pub fn flush(&self) {
        self.sink.flush();
    }
}

/// Installs the log for the whole process: text on stderr, verbosity 0.
///
/// If another log is installed already (as in a test), that one stays.
pub fn install() -> LogHandle {
    let handle = LogHandle::default();
    let _ = tracing::subscriber::set_global_default(registry().with(layer(&handle)));
    handle
}

fn layer(handle: &LogHandle) -> KlogLayer {
    KlogLayer { verbosity: Arc::clone(&handle.verbosity), sink: Arc::clone(&handle.sink) }
}

#[cfg(test)]
pub(crate) mod captured;
#[cfg(test)]
mod tests;
