//! Writes lines to the streams on a thread of its own, the only one that waits for the log's reader.

use std::io::{self, BufWriter, Write};
use std::time::{Duration, Instant};

use super::queue::{Batch, Entry, Importance, LineQueue};

/// A destination of lines.
pub type Stream = Box<dyn Write + Send>;
/// Opens the stream of informational lines if streams are split.
pub type MakeStream = Box<dyn Fn() -> Stream + Send>;
/// Formats the line that reports missing ones.
pub type RenderDropped = Box<dyn Fn(u64) -> String + Send>;

/// The streams.
pub struct Writer {
    errors: Stream,
    /// `None` while informational lines share the error stream.
    info: Option<BufWriter<Stream>>,
    make_info_stream: MakeStream,
    render_dropped: RenderDropped,
    /// Whether the last write succeeded.
    is_writing_well: bool,
}

impl Writer {
    /// All lines go to one stream at first.
    pub fn new(errors: Stream, make_info_stream: MakeStream, render_dropped: RenderDropped) -> Self {
        Self { errors, info: None, make_info_stream, render_dropped, is_writing_well: true }
    }

    /// Writes until the queue is closed; lines stay buffered for at most `flush_every`.
    pub fn run(mut self, queue: &LineQueue, flush_every: impl Fn() -> Duration) {
        let mut flush_at: Option<Instant> = None;
        loop {
            let idle = flush_at.map(|at| at.saturating_duration_since(Instant::now()));
            if !self.write_next(queue, idle) {
                return;
            }
            let is_buffered = self.info.as_ref().is_some_and(|info| !info.buffer().is_empty());
            let now = Instant::now();
            flush_at = is_buffered.then(|| flush_at.unwrap_or(now + flush_every()));
            if flush_at.is_some_and(|at| at <= now) {
                self.flush();
                flush_at = None;
            }
        }
    }

    /// Writes the next batch. Returns whether the queue is still open.
    pub fn write_next(&mut self, queue: &LineQueue, idle: Option<Duration>) -> bool {
        let Some(batch) = queue.next(idle, self.is_writing_well) else { return false };
        let lost = self.write(queue, &batch);
        queue.finish(&batch, lost);
        true
    }

    /// Returns how many missing lines are still to be reported.
    fn write(&mut self, queue: &LineQueue, batch: &Batch) -> u64 {
        let mut unreported = 0;
        for entry in &batch.entries {
            match entry {
                Entry::Line(importance, line) => {
                    self.is_writing_well = self.write_line(*importance, line).is_ok();
                    if !self.is_writing_well {
                        queue.count_lost(1);
                        unreported += 1;
                    }
                }
                Entry::Dropped(lines) => {
                    let line = (self.render_dropped)(*lines);
                    self.is_writing_well = self.write_line(Importance::Error, &line).is_ok();
                    unreported += if self.is_writing_well { 0 } else { *lines };
                }
                Entry::InfoStream(buffer) => {
                    self.flush();
                    self.info = buffer.map(|size| BufWriter::with_capacity(size, (self.make_info_stream)()));
                }
                Entry::Flush => self.flush(),
            }
        }
        unreported
    }

    fn write_line(&mut self, importance: Importance, line: &str) -> io::Result<()> {
        if importance == Importance::Info
            && let Some(stream) = self.info.as_mut()
        {
            stream.write_all(line.as_bytes())?;
            return if stream.capacity() == 0 { stream.flush() } else { Ok(()) };
        }
        if importance == Importance::Error
            && let Some(stream) = self.info.as_mut()
        {
            // Earlier lines should come out before an error. A failure shows with the next line there.
            let _ = stream.flush();
        }
        self.errors.write_all(line.as_bytes())
    }

    /// There is no place to report a failure to.
    fn flush(&mut self) {
        if let Some(stream) = self.info.as_mut() {
            let _ = stream.flush();
        }
        let _ = self.errors.flush();
    }
}
