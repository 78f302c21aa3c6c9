//! Writes lines to the streams, on a thread of its own: nobody else waits for whoever reads the log.

use std::io::{self, BufWriter, Write};
use std::time::{Duration, Instant};

use super::queue::{Batch, Entry, Importance, LineQueue};

/// Something lines can be written to.
pub type Stream = Box<dyn Write + Send>;
/// Gives the stream of informational lines, should streams be split.
pub type MakeStream = Box<dyn Fn() -> Stream + Send>;
/// The line that tells of missing ones.
pub type RenderDropped = Box<dyn Fn(u64) -> String + Send>;

/// The streams.
pub struct Writer {
    errors: Stream,
    /// `None` while informational lines share the error stream.
    info: Option<BufWriter<Stream>>,
    make_info_stream: MakeStream,
    render_dropped: RenderDropped,
    /// Whether the last line could be written.
    is_writing_well: bool,
}

impl Writer {
    /// All lines go to one stream at first.
    pub fn new(errors: Stream, make_info_stream: MakeStream, render_dropped: RenderDropped) -> Self {
        Self { errors, info: None, make_info_stream, render_dropped, is_writing_well: true }
    }

    /// Writes until the queue is closed; nothing stays in the buffer for longer than `flush_every` says.
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

    /// Writes what is in the queue; says whether it is still open.
    pub fn write_next(&mut self, queue: &LineQueue, idle: Option<Duration>) -> bool {
        let Some(batch) = queue.next(idle, self.is_writing_well) else { return false };
        let lost = self.write(queue, &batch);
        queue.finish(&batch, lost);
        true
    }

    /// Returns how many lines are still to be told of as missing.
    fn write(&mut self, queue: &LineQueue, batch: &Batch) -> u64 {
        let mut untold = 0;
        for entry in &batch.entries {
            match entry {
                Entry::Line(importance, line) => {
                    self.is_writing_well = self.write_line(*importance, line).is_ok();
                    if !self.is_writing_well {
                        queue.count_lost(1);
                        untold += 1;
                    }
                }
                Entry::Dropped(lines) => {
                    let line = (self.render_dropped)(*lines);
                    self.is_writing_well = self.write_line(Importance::Error, &line).is_ok();
                    untold += if self.is_writing_well { 0 } else { *lines };
                }
                Entry::InfoStream(buffer) => {
                    self.flush();
                    self.info = buffer.map(|size| BufWriter::with_capacity(size, (self.make_info_stream)()));
                }
                Entry::Flush => self.flush(),
            }
        }
        untold
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
            // What led to an error should be out before it. That this failed is told of with the next line there.
            let _ = stream.flush();
        }
        self.errors.write_all(line.as_bytes())
    }

    /// A log that cannot be written to has nobody to complain to.
    fn flush(&mut self) {
        if let Some(stream) = self.info.as_mut() {
            let _ = stream.flush();
        }
        let _ = self.errors.flush();
    }
}
