//! The output streams: stderr, or buffered stdout for informational lines if streams are split.
//!
//! Never blocks: lines go into [`super::queue`] and are written by [`super::writer`] on the thread `log`.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferrule_config::settings::{InfoStream, LogFormat, LoggingSettings};
use ferrule_kernel::sandbox::drop_all_privileges;

use super::layer::notice;
use super::queue::{Entry, Importance, LineQueue};
use super::writer::{MakeStream, Stream, Writer};
use ferrule_kernel::threads;

/// The streams, and the format of lines.
pub struct Sink {
    queue: Arc<LineQueue>,
    options: Arc<Options>,
    /// Writes without the thread if it could not be started.
    instead_of_thread: Option<Mutex<Writer>>,
}

/// Settings that may change while lines are written.
#[derive(Debug, Default)]
struct Options {
    is_json: AtomicBool,
    flush_every_ms: AtomicU64,
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink").finish_non_exhaustive()
    }
}

impl Sink {
    /// Text on stderr.
    pub fn standard_streams() -> Self {
        Self::new(Box::new(io::stderr()), Box::new(|| Box::new(io::stdout())))
    }

    /// Text on the caller's stream; `make_info_stream` opens the other one if streams are split.
    pub fn new(errors: Stream, make_info_stream: MakeStream) -> Self {
        let (queue, options) = (Arc::new(LineQueue::default()), Arc::new(Options::default()));
        let shown = Arc::clone(&options);
        let dropped = move |lines| dropped_line(shown.format(), lines);
        let writer = Arc::new(Mutex::new(Some(Writer::new(errors, make_info_stream, Box::new(dropped)))));
        let (taken, todo, used) = (Arc::clone(&writer), Arc::clone(&queue), Arc::clone(&options));
        let work = move || {
            // It only writes to streams that are open.
            drop_all_privileges();
            if let Some(writer) = take(&taken) {
                writer.run(&todo, || Duration::from_millis(used.flush_every_ms.load(Ordering::Relaxed)));
            }
        };
        let instead_of_thread =
            if threads::spawn("log", work).is_ok() { None } else { take(&writer).map(Mutex::new) };
        Self { queue, options, instead_of_thread }
    }

    /// Applies format, streams and flush frequency.
    pub fn configure(&self, settings: &LoggingSettings) {
        let buffer = match settings.info_stream {
            InfoStream::Stderr => None,
            InfoStream::Stdout { buffer } => Some(buffer),
        };
        self.options.is_json.store(settings.format == LogFormat::Json, Ordering::Relaxed);
        let flush_every = u64::try_from(settings.flush_every.as_millis()).unwrap_or(u64::MAX).max(1);
        self.options.flush_every_ms.store(flush_every, Ordering::Relaxed);
        self.queue.push_control(Entry::InfoStream(buffer));
        self.write_instead_of_thread();
    }

    /// The format of lines.
    pub fn format(&self) -> LogFormat {
        self.options.format()
    }

    /// Queues one line; never blocks. A line that does not fit is dropped and counted.
    pub fn write(&self, importance: Importance, line: String) {
        self.queue.push_line(importance, line);
        self.write_instead_of_thread();
    }

    /// Waits until all lines are written, at most this long. Returns whether they are.
    pub fn flush(&self, limit: Duration) -> bool {
        if self.instead_of_thread.is_some() {
            self.queue.push_control(Entry::Flush);
            self.write_instead_of_thread();
            return true;
        }
        self.queue.flush(limit)
    }

    /// Like [`Self::flush`], for a thread that panicked, perhaps in here.
    pub fn flush_after_panic(&self, limit: Duration) {
        if self.instead_of_thread.is_none() {
            self.queue.flush_if_unlocked(limit);
        }
    }

    /// Lines dropped since the start.
    pub fn dropped(&self) -> u64 {
        self.queue.dropped_ever()
    }

    fn write_instead_of_thread(&self) {
        if let Some(writer) = &self.instead_of_thread {
            writer
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .write_next(&self.queue, Some(Duration::ZERO));
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl Options {
    fn format(&self) -> LogFormat {
        if self.is_json.load(Ordering::Relaxed) { LogFormat::Json } else { LogFormat::Text }
    }
}

fn take(writer: &Mutex<Option<Writer>>) -> Option<Writer> {
    writer.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn dropped_line(format: LogFormat, lines: u64) -> String {
    let message =
        "Log lines are missing here: whatever reads the log was too slow, or it could not be written";
    notice(format, message, &[("dropped", lines.to_string())])
}
