//! The log: klog's text lines or JSON objects, from `tracing` events.
//!
//! Levels map to klog's severities and verbosities: `error` and `warn` always show, `info` is verbosity 0, `debug` 2,
//! `trace` 4; a field `v` says another one. Installed once, as text, and configured again when the settings are known
//! or change. Nothing is written unless an event happens.
//!
//! Logging never blocks: lines go through a bounded queue to a thread that writes them. Long values are cut, and unprintable
//! characters escaped, since names and errors may come from an attacker.

mod bounded;
mod fields;
mod final_line;
mod json;
mod layer;
mod queue;
mod sink;
mod text;
mod verbosity;
mod writer;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ferrule_config::settings::LoggingSettings;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

pub use final_line::write_final_line;
use layer::KlogLayer;
use sink::Sink;
use verbosity::Verbosity;

/// The target of events whose message is written without quotes.
pub const UNSTRUCTURED: &str = "ferrule::unstructured";

/// How long a flush may take: the reader may have stopped, and the process must exit all the same.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// The log of this process, once it is installed.
static INSTALLED: OnceLock<LogHandle> = OnceLock::new();

/// A handle to the installed log.
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
    /// Applies new settings to the following lines.
    pub fn configure(&self, settings: &LoggingSettings) {
        self.verbosity.configure(settings);
        self.sink.configure(settings);
    }

    /// Sets the verbosity alone, as `/debug/flags/v` does.
    pub fn set_verbosity(&self, verbosity: u32) {
        self.verbosity.set(verbosity);
    }

    /// Flushes the buffers, within two seconds or not at all.
    pub fn flush(&self) {
        self.sink.flush(FLUSH_TIMEOUT);
    }

    /// Lines dropped since the start, because the queue was full or the write failed.
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
