//! Where lines go: stderr, or stdout for informational ones if streams are split, with a buffer that is flushed.

use std::fmt;
use std::io::{self, BufWriter, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::settings::{InfoStream, LogFormat, LoggingSettings};

/// Whether a line is an error; errors are never held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Importance {
    /// Informational lines and warnings.
    Info,
    /// Errors.
    Error,
}

/// Something lines can be written to.
pub type Stream = Box<dyn Write + Send>;
type MakeStream = Box<dyn Fn() -> Stream + Send + Sync>;

/// The streams, and the format lines are written in.
pub struct Sink {
    errors: Mutex<Stream>,
    /// `None` while informational lines share the error stream.
    info: Arc<Mutex<Option<BufWriter<Stream>>>>,
    make_info_stream: MakeStream,
    format: Mutex<LogFormat>,
    /// Dropping it ends the thread that flushes.
    flusher: Mutex<Option<Sender<()>>>,
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

    /// Text on a stream of the caller's; `make_info_stream` gives the other one should streams be split.
    pub fn new(errors: Stream, make_info_stream: MakeStream) -> Self {
        Self {
            errors: Mutex::new(errors),
            info: Arc::default(),
            make_info_stream,
            format: Mutex::new(LogFormat::Text),
            flusher: Mutex::default(),
        }
    }

    /// Takes over format, streams and flush frequency.
    pub fn configure(&self, settings: &LoggingSettings) {
        self.flush();
        if let Ok(mut format) = self.format.lock() {
            *format = settings.format;
        }
        let buffer = match settings.info_stream {
            InfoStream::Stderr => None,
            InfoStream::Stdout { buffer } => Some(buffer),
        };
        if let Ok(mut info) = self.info.lock() {
            *info = buffer.map(|buffer| BufWriter::with_capacity(buffer, (self.make_info_stream)()));
        }
        // Without a buffer there is nothing to flush and no thread.
        let flusher =
            buffer.filter(|buffer| *buffer > 0).and_then(|_| self.start_flusher(settings.flush_every));
        if let Ok(mut current) = self.flusher.lock() {
            *current = flusher;
        }
    }

    /// The format lines are to have.
    pub fn format(&self) -> LogFormat {
        self.format.lock().map_or(LogFormat::Text, |format| *format)
    }

    /// Writes one line. A log that cannot be written to has nobody to complain to.
    pub fn write(&self, importance: Importance, line: &str) {
        if importance == Importance::Info
            && let Ok(mut info) = self.info.lock()
            && let Some(stream) = info.as_mut()
        {
            let _ = stream.write_all(line.as_bytes());
            if stream.capacity() == 0 {
                let _ = stream.flush();
            }
            return;
        }
        if importance == Importance::Error {
            // What led to an error should be out before it.
            flush(&self.info);
        }
        if let Ok(mut errors) = self.errors.lock() {
            let _ = errors.write_all(line.as_bytes());
        }
    }

    /// Writes out what is buffered.
    pub fn flush(&self) {
        flush(&self.info);
        if let Ok(mut errors) = self.errors.lock() {
            let _ = errors.flush();
        }
    }

    fn start_flusher(&self, every: Duration) -> Option<Sender<()>> {
        let (sender, receiver) = mpsc::channel::<()>();
        let info = Arc::clone(&self.info);
        let work = move || {
            while let Err(RecvTimeoutError::Timeout) = receiver.recv_timeout(every) {
                flush(&info);
            }
        };
        thread::Builder::new().name("log-flush".to_owned()).spawn(work).ok().map(|_| sender)
    }
}

fn flush(info: &Mutex<Option<BufWriter<Stream>>>) {
    if let Ok(mut info) = info.lock()
        && let Some(stream) = info.as_mut()
    {
        let _ = stream.flush();
    }
}
