//! A log caught in memory, for tests here and elsewhere.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use ferrule_config::settings::LoggingSettings;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

use super::sink::Sink;
use super::{LogHandle, layer};

/// A stream that remembers.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    /// What was written.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("no writer panicked")).into_owned()
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no writer panicked").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What came out on each stream.
pub struct Captured {
    /// On stderr.
    pub errors: String,
    /// On the stream for the rest, if there is one.
    pub info: String,
}

/// A log that writes into memory, with its two streams.
pub fn streams() -> (LogHandle, Memory, Memory) {
    let (errors, info) = (Memory::default(), Memory::default());
    let other = info.clone();
    let sink = Sink::new(Box::new(errors.clone()), Box::new(move || Box::new(other.clone())));
    (LogHandle { verbosity: Arc::default(), sink: Arc::new(sink) }, errors, info)
}

/// What this logs with these settings.
pub fn capture(settings: &LoggingSettings, log: impl FnOnce(&LogHandle)) -> Captured {
    let (handle, errors, info) = streams();
    handle.configure(settings);
    tracing::subscriber::with_default(registry().with(layer(&handle)), || log(&handle));
    handle.flush();
    Captured { errors: errors.text(), info: info.text() }
}

/// The lines without time, process and caller, which differ from run to run.
pub fn bodies(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| {
            line.split_once("] ").map_or(line.to_owned(), |(head, body)| format!("{} {body}", &head[..1]))
        })
        .collect()
}
