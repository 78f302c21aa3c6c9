//! The last line of a process that must exit now: written past the queue, which may be broken.

use std::io;
use std::os::fd::AsFd;
use std::panic::Location;
use std::time::{Duration, Instant};

use ferrule_config::settings::LogFormat;
use jiff::Zoned;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing::Level;

use super::INSTALLED;
use super::bounded::BoundedText;
use super::fields::{EventFields, FieldValue};
use super::layer::Line;

/// How long flushing the lines before it may take, and how long it may take itself.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);
/// A writable pipe accepts this much without blocking (`PIPE_BUF`).
const CHUNK: usize = 4096;
const MAX_VALUE: usize = 16 * 1024;

/// Writes an error to stderr after all lines that were logged before: a message, `err`, and further fields, as if logged at a
/// place in the source.
pub fn write_final_line(
    message: &str,
    err: &str,
    fields: &[(&'static str, &str)],
    place: Option<&Location<'_>>,
) {
    let format = match INSTALLED.get() {
        Some(log) => {
            log.sink.flush_after_panic(WRITE_TIMEOUT);
            log.sink.format()
        }
        None => LogFormat::Text,
    };
    let bounded = |text: &str| BoundedText::format(MAX_VALUE, format_args!("{text}"));
    let fields = EventFields {
        message: message.to_owned(),
        verbosity: None,
        error: Some(bounded(err)),
        others: fields.iter().map(|(key, value)| (*key, FieldValue::Text(bounded(value)))).collect(),
    };
    let (time, level) = (&Zoned::now(), Level::ERROR);
    let (file, row) = place.map_or(("unknown", 0), |place| (place.file(), place.line()));
    let line = Line { time, level, file, row, verbosity: 0, unstructured: false, fields: &fields };
    // There is no other place to report an error to.
    let _ = write_within(io::stderr(), line.rendered(format).as_bytes(), WRITE_TIMEOUT);
}

/// Writes as much as the stream accepts in this time. Takes no lock: the standard library's may be held by a thread that waits
/// for the same stream.
fn write_within(stream: impl AsFd, mut bytes: &[u8], limit: Duration) -> io::Result<()> {
    let deadline = Instant::now() + limit;
    while !bytes.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&stream, PollFlags::OUT)], Some(&left)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        match rustix::io::write(&stream, &bytes[..bytes.len().min(CHUNK)]) {
            Ok(written) => bytes = &bytes[written..],
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_pipe_that_nobody_reads_is_given_up() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let long = vec![b'x'; 1 << 20];
        let result = write_within(&writer, &long, Duration::from_millis(50));
        assert_eq!(result.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
        drop(writer);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).expect("what fitted");
        assert!(!read.is_empty() && read.len() < long.len());
    }

    #[test]
    fn a_reader_that_went_away_is_an_error_and_no_more() {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        let result = write_within(&writer, b"x", Duration::from_millis(50));
        assert_eq!(result.map_err(|error| error.kind()), Err(io::ErrorKind::BrokenPipe));
    }
}
