//! A panic on any thread ends the process with one line and exit code 2: seen from outside, in a process of its own.

use std::io::{self, Read as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ferrule::{logging, panics};
use ferrule_kernel::threads;
use tracing::info;

/// What the process that this test starts is to do.
const SCENARIO: &str = "FERRULE_PANIC_SCENARIO";
const PATIENCE: Duration = Duration::from_secs(30);

/// Not a test of its own: what the other process runs.
#[test]
fn the_other_process() {
    let Ok(scenario) = std::env::var(SCENARIO) else { return };
    panics::install_hook();
    let log = logging::install();
    info!("before it");
    match scenario.as_str() {
        "named thread" => drop(threads::spawn("victim", || panic!("no {}", "reason"))),
        "thread of a library" => drop(std::thread::spawn(|| panic!("no reason"))),
        "task" => {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            // tokio would only hand the panic to whoever joins the task.
            let running = threads::spawn("runtime", move || {
                runtime.block_on(async {
                    drop(tokio::spawn(async { panic!("no reason") }));
                    std::future::pending::<()>().await;
                });
            });
            drop(running);
        }
        "log that nobody reads" => {
            for number in 0..50_000 {
                info!(number, "a line to fill the pipe with, and the queue behind it");
            }
            drop(threads::spawn("victim", || panic!("no reason")));
        }
        "contained" => {
            let failed = panics::contained(|| panic!("no reason"));
            info!(is_contained = failed.is_err(), "after it");
            log.flush();
            std::process::exit(0);
        }
        other => panic!("no such scenario: {other}"),
    }
    loop {
        std::thread::park();
    }
}

fn started(scenario: &str) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "the_other_process", "--nocapture", "--test-threads=1"])
        .env(SCENARIO, scenario)
        .env_remove("RUST_BACKTRACE")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this program starts")
}

/// Its exit code and what it wrote, if it ends in time.
fn ended(mut child: Child) -> io::Result<(Option<i32>, String)> {
    let began = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if began.elapsed() > PATIENCE => {
                child.kill()?;
                return Err(io::ErrorKind::TimedOut.into());
            }
            None => std::thread::park_timeout(Duration::from_millis(10)),
        }
    };
    let mut text = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut text)?;
    Ok((status.code(), text))
}

#[test]
fn a_panic_on_any_thread_ends_the_process_with_one_line_and_code_2() {
    for (scenario, thread) in
        [("named thread", "victim"), ("thread of a library", "unnamed"), ("task", "runtime")]
    {
        let (code, text) = ended(started(scenario)).expect(scenario);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((code, lines.len()), (Some(panics::EXIT_CODE), 2), "{scenario}: {text}");
        assert!(lines[0].contains("\"before it\""), "{text}");
        assert!(lines[1].starts_with('E') && lines[1].contains(" panics.rs:"), "{text}");
        let expected = format!("err=\"no reason\" thread=\"{thread}\" location=\"");
        assert!(lines[1].contains(&expected), "{text}");
    }
}

#[test]
fn a_log_that_nobody_reads_does_not_keep_it_from_ending() {
    // Its pipe is read only once it has ended.
    let (code, text) = ended(started("log that nobody reads")).expect("it ends");
    assert_eq!(code, Some(panics::EXIT_CODE));
    assert!(text.contains("\"before it\""), "{text}");
}

#[test]
fn a_contained_panic_ends_nothing() {
    let (code, text) = ended(started("contained")).expect("it ends");
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("\"after it\" is_contained=true"), "{text}");
    assert!(!text.contains("panicked"), "{text}");
}
