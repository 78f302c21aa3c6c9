//! Lines as they come out on each stream.

use std::time::Duration;

use tracing::{debug, error, info, trace, warn};

use super::captured::{bodies, capture, streams};
use super::*;
use crate::settings::{InfoStream, LogFormat, LoggingSettings};

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
        assert_eq!(bodies(&info.text()).len(), 2);
    });
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
    let waiting_since = std::time::Instant::now();
    while info.text().is_empty() {
        assert!(waiting_since.elapsed() < Duration::from_secs(10), "never flushed");
        std::thread::yield_now();
    }
}

#[test]
fn nothing_is_written_at_rest() {
    let captured = capture(&LoggingSettings::default(), |_| {});
    assert_eq!((captured.errors, captured.info), (String::new(), String::new()));
}
