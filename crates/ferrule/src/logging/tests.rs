//! Lines as they come out on each stream.

use std::io::{self, Write};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use ferrule_config::settings::{InfoStream, LogFormat, LoggingSettings};
use tracing::{debug, error, info, trace, warn};

use super::captured::{bodies, capture, streams};
use super::*;

#[test]
fn text_lines_are_klogs() {
    let captured = capture(&LoggingSettings::default(), |_| {
        info!(mode = "nftables", objects = 3, ready = true, "Using proxier");
        warn!(reason = %"two words", "careful");
        error!(err = %"boom \"x\"", file = "a.yaml", "command failed");
        info!(target: UNSTRUCTURED, "FLAG: --v=\"1\"");
    });
    assert_eq!(
        bodies(&captured.errors),
        [
            "I \"Using proxier\" mode=\"nftables\" objects=3 ready=true",
            "W \"careful\" reason=\"two words\"",
            "E \"command failed\" err=\"boom \\\"x\\\"\" file=\"a.yaml\"",
            "I FLAG: --v=\"1\"",
        ]
    );
}

#[test]
fn the_head_of_a_text_line_has_klogs_columns() {
    let captured = capture(&LoggingSettings::default(), |_| info!("x"));
    let (head, _) = captured.errors.split_once("] ").expect("a head");
    let columns: Vec<&str> = head.split(' ').filter(|column| !column.is_empty()).collect();
    let [date, time, process, caller] = columns.as_slice() else { panic!("{head}") };
    assert!(date.starts_with('I') && date.len() == 5, "{date}");
    assert!(time.len() == 15 && time.as_bytes()[8] == b'.', "{time}");
    assert_eq!(*process, std::process::id().to_string());
    assert!(caller.starts_with("tests.rs:"), "{caller}");
    assert_eq!(head.find(time).map(|at| at + time.len() + 1 + 7), head.find(caller).map(|at| at - 1));
}

#[test]
fn values_of_several_lines_become_a_block() {
    let captured = capture(&LoggingSettings::default(), |_| info!(err = %"a\nb", "lenient"));
    assert!(captured.errors.ends_with("] \"lenient\" err=<\n\ta\n\tb\n >\n"), "{}", captured.errors);
}

#[test]
fn json_lines_are_objects_with_kube_proxys_keys() {
    let settings = LoggingSettings { format: LogFormat::Json, verbosity: 3, ..LoggingSettings::default() };
    let captured = capture(&settings, |_| {
        info!(mode = "nftables", objects = 3, "quote \" and \n line");
        debug!("deeper");
        error!(err = %"boom", "failed");
    });
    let lines: Vec<serde_json::Value> =
        captured.errors.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["msg"], "quote \" and \n line");
    assert_eq!((&lines[0]["v"], &lines[0]["objects"]), (&0.into(), &3.into()));
    assert_eq!(lines[1]["v"], 2);
    assert_eq!(lines[2]["err"], "boom");
    assert!(lines[2].get("v").is_none());
    assert!(lines[0]["ts"].as_f64().is_some_and(|ts| ts > 1.6e12));
    assert!(lines[0]["caller"].as_str().is_some_and(|caller| caller.starts_with("logging/tests.rs:")));
}

#[test]
fn verbosity_decides_and_can_change() {
    let captured = capture(&LoggingSettings::default(), |handle| {
        info!(v = 1, "one");
        debug!("two");
        handle.set_verbosity(2);
        info!(v = 1, "one now");
        debug!("two now");
        trace!("four");
        info!(v = 3, "three");
    });
    assert_eq!(bodies(&captured.errors), ["I \"one now\"", "I \"two now\""]);
}

#[test]
fn libraries_are_heard_by_who_asks_for_everything() {
    let log = |_: &LogHandle| {
        debug!(target: "h2::codec", "a frame");
        trace!(target: "hyper::proto", "a byte");
        warn!(target: "h2::codec", "a problem");
    };
    let lines = |verbosity| {
        let settings = LoggingSettings { verbosity, ..LoggingSettings::default() };
        capture(&settings, log).errors.lines().count()
    };
    assert_eq!([2, 7, 8, 10].map(lines), [1, 1, 2, 3]);
}

#[test]
fn a_pattern_raises_the_verbosity_of_its_file() {
    let log = || trace!("from this file");
    let settings = |pattern: &str| LoggingSettings {
        vmodule: vec![(pattern.to_owned(), 4)],
        ..LoggingSettings::default()
    };
    assert_eq!(capture(&settings("tests"), |_| log()).errors.lines().count(), 1);
    assert_eq!(capture(&settings("other"), |_| log()).errors, "");
}

#[test]
fn split_streams_keep_errors_apart() {
    let settings =
        LoggingSettings { info_stream: InfoStream::Stdout { buffer: 0 }, ..LoggingSettings::default() };
    let captured = capture(&settings, |_| {
        info!("fine");
        error!("bad");
    });
    assert_eq!(bodies(&captured.info), ["I \"fine\""]);
    assert_eq!(bodies(&captured.errors), ["E \"bad\""]);
}

#[test]
fn a_buffer_is_written_out_on_flush_and_before_an_error() {
    let settings = LoggingSettings {
        info_stream: InfoStream::Stdout { buffer: 1 << 16 },
        flush_every: Duration::from_hours(1),
        ..LoggingSettings::default()
    };
    let (handle, errors, info) = streams();
    handle.configure(&settings);
    tracing::subscriber::with_default(registry().with(layer(&handle)), || {
        info!("held back");
        assert_eq!(info.text(), "");
        handle.flush();
        assert_eq!(bodies(&info.text()), ["I \"held back\""]);
        info!("led to it");
        error!("it");
    });
    until(|| !errors.text().is_empty());
    assert_eq!(bodies(&info.text()).len(), 2, "out before the error");
    assert_eq!(bodies(&errors.text()), ["E \"it\""]);
}

#[test]
fn a_buffer_is_written_out_in_time() {
    let settings = LoggingSettings {
        info_stream: InfoStream::Stdout { buffer: 1 << 16 },
        flush_every: Duration::from_millis(5),
        ..LoggingSettings::default()
    };
    let (handle, _, info) = streams();
    handle.configure(&settings);
    tracing::subscriber::with_default(registry().with(layer(&handle)), || info!("soon"));
    until(|| !info.text().is_empty());
}

fn until(mut is_so: impl FnMut() -> bool) {
    let waiting_since = std::time::Instant::now();
    while !is_so() {
        assert!(waiting_since.elapsed() < Duration::from_secs(20), "it never came");
        std::thread::yield_now();
    }
}

#[test]
fn nothing_is_written_at_rest() {
    let captured = capture(&LoggingSettings::default(), |_| {});
    assert_eq!((captured.errors, captured.info), (String::new(), String::new()));
}

/// Characters that steer a terminal, end a line or hide what stands beside them.
const HOSTILE: [(char, &str, &str); 13] = [
    ('\u{1b}', "\\x1b", "\\u001b"),
    ('\r', "\\r", "\\r"),
    ('\u{0}', "\\x00", "\\u0000"),
    ('\u{7f}', "\\x7f", "\\u007f"),
    ('\u{85}', "\\u0085", "\\u0085"),
    ('\u{9b}', "\\u009b", "\\u009b"),
    ('\u{2028}', "\\u2028", "\\u2028"),
    ('\u{2029}', "\\u2029", "\\u2029"),
    ('\u{202e}', "\\u202e", "\\u202e"),
    ('\u{2066}', "\\u2066", "\\u2066"),
    ('\u{200b}', "\\u200b", "\\u200b"),
    ('\u{feff}', "\\ufeff", "\\ufeff"),
    ('\u{e0041}', "\\U000e0041", "\\udb40\\udc41"),
];

#[test]
fn hostile_characters_are_escaped_wherever_they_stand_in_a_text_line() {
    for (hostile, escaped, _) in HOSTILE {
        let (value, expected) = (format!("a{hostile}b"), format!("a{escaped}b"));
        let captured = capture(&LoggingSettings::default(), |_| {
            info!(name = value, shown = %value, "{value}");
            warn!(err = %value, "w");
            info!(target: UNSTRUCTURED, "{value}");
            info!(err = %format!("one\n{value}"), "block");
        });
        let text = &captured.errors;
        assert!(!text.contains(hostile), "{text:?}");
        assert_eq!(text.matches(&expected).count(), 6, "{text}");
        assert!(text.contains(&format!("err=<\n\tone\n\t{expected}\n >\n")), "{text}");
    }
}

#[test]
fn hostile_characters_are_escaped_in_json_and_read_back_as_they_were() {
    let settings = LoggingSettings { format: LogFormat::Json, ..LoggingSettings::default() };
    for (hostile, _, escaped) in HOSTILE {
        let value = format!("a{hostile}b");
        let captured = capture(&settings, |_| info!(name = value, err = %value, "{value}"));
        let text = &captured.errors;
        assert!(!text.contains(hostile), "{text:?}");
        assert_eq!(text.matches(&format!("a{escaped}b")).count(), 3, "{text}");
        let line: serde_json::Value = serde_json::from_str(text).expect("JSON");
        for key in ["msg", "name", "err"] {
            assert_eq!(line[key].as_str(), Some(value.as_str()));
        }
    }
}

#[test]
fn letters_of_every_script_stay_as_they_are() {
    let text = "é ß Ω я 中 한 अ ง e\u{301} 😀 \u{200a}";
    let captured = capture(&LoggingSettings::default(), |_| info!(name = text, "x"));
    let shown = "é ß Ω я 中 한 अ ง e\u{301} 😀 \\u200a";
    assert!(captured.errors.contains(&format!("name=\"{shown}\"")), "{}", captured.errors);
}

#[test]
fn an_unstructured_message_cannot_begin_a_second_line() {
    let captured = capture(&LoggingSettings::default(), |_| {
        info!(target: UNSTRUCTURED, "gate \"a\nE1117 00:00:00.000000       1 app.rs:1] forged\"");
    });
    assert_eq!(captured.errors.lines().count(), 1, "{}", captured.errors);
}

#[test]
fn long_values_are_cut_and_say_how_much_is_missing() {
    let (long, longer) = ("k".repeat(1_500_000), "é".repeat(1_000_000));
    for format in [LogFormat::Text, LogFormat::Json] {
        let settings = LoggingSettings { format, ..LoggingSettings::default() };
        let captured = capture(&settings, |_| {
            error!(err = %long, "Manifest");
            warn!(object = %longer, debug = ?long, plain = long, "{long}");
        });
        let text = &captured.errors;
        assert!(text.len() < 64 * 1024, "{} bytes", text.len());
        for missing in [1_500_000 - 1024, 1_500_000 - 4 * 1024, 1_500_000 - 16 * 1024] {
            assert!(text.contains(&format!("k… ({missing} bytes more)")), "{missing}: {text}");
        }
        assert!(text.contains("é… (1998976 bytes more)"), "{text}");
    }
}

/// A stream whose reader has stopped until it is let go on, and then may fail.
#[derive(Clone, Default)]
struct Stuck(Arc<(Mutex<StuckState>, Condvar)>);

#[derive(Default)]
struct StuckState {
    is_released: bool,
    is_failing: bool,
    written: Vec<u8>,
}

impl Stuck {
    fn change(&self, change: impl FnOnce(&mut StuckState)) {
        change(&mut self.0.0.lock().expect("nobody panicked"));
        self.0.1.notify_all();
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.0.lock().expect("nobody panicked").written).into_owned()
    }
}

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let state = self.0.0.lock().expect("nobody panicked");
        let mut state = self.0.1.wait_while(state, |state| !state.is_released).expect("nobody panicked");
        if state.is_failing {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.written.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn logging_to(stream: &Stuck) -> LogHandle {
    let other = stream.clone();
    let sink = Sink::new(Box::new(stream.clone()), Box::new(move || Box::new(other.clone())));
    LogHandle { verbosity: Arc::default(), sink: Arc::new(sink) }
}

#[test]
fn a_log_that_nobody_reads_holds_nobody_up_and_says_afterwards_what_is_missing() {
    let stream = Stuck::default();
    let handle = logging_to(&stream);
    let logged = 20_000;
    tracing::subscriber::with_default(registry().with(layer(&handle)), || {
        for number in 0..logged {
            info!(number, "a line that waits");
        }
    });
    assert!(handle.dropped() > 0, "nothing was dropped");
    stream.change(|state| state.is_released = true);
    until(|| stream.text().contains("dropped="));
    let text = stream.text();
    let lines: Vec<&str> = text.lines().collect();
    let (report, written) = lines.split_last().expect("a report");
    assert!(report.ends_with(&format!("dropped={}", handle.dropped())), "{report}");
    assert_eq!(written.len() as u64 + handle.dropped(), logged);
    for (number, line) in written.iter().enumerate() {
        assert!(line.ends_with(&format!(" number={number}")), "out of order: {line}");
    }
}

#[test]
fn a_full_disk_loses_lines_and_says_so_once_there_is_room() {
    let stream = Stuck::default();
    stream.change(|state| (state.is_released, state.is_failing) = (true, true));
    let handle = logging_to(&stream);
    tracing::subscriber::with_default(registry().with(layer(&handle)), || {
        for number in 0..3 {
            info!(number, "lost");
            handle.flush();
        }
        assert_eq!(handle.dropped(), 3);
        stream.change(|state| state.is_failing = false);
        info!("kept");
    });
    handle.flush();
    let bodies = bodies(&stream.text());
    let [report, kept] = bodies.as_slice() else { panic!("{bodies:?}") };
    assert!(report.starts_with("W ") && report.ends_with("dropped=3"), "{report}");
    assert_eq!(kept, "I \"kept\"");
}
