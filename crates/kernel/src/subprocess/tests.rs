//! Programs that end, that do not, and what they are told.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::*;

const LONG: Duration = Duration::from_mins(1);

fn shell(script: &str) -> Result<Output, RunError> {
    run(&Run { program: "sh", arguments: &["-c", script], input: "input\n", timeout: LONG, cancel: None })
}

/// Waits until a script has written its own number and that of what it started, one a line.
fn numbers_in(file: &Path) -> Vec<u32> {
    let give_up = Instant::now() + LONG;
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        let numbers: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        if numbers.len() == 2 {
            return numbers;
        }
        assert!(Instant::now() < give_up, "the script did not begin");
        std::thread::yield_now();
    }
}

fn is_running(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn wait_until_gone(processes: &[u32]) {
    let give_up = Instant::now() + LONG;
    while processes.iter().any(|process| is_running(*process)) {
        assert!(Instant::now() < give_up, "{processes:?} go on");
        std::thread::yield_now();
    }
}

#[test]
fn a_program_that_ends_in_time_is_heard_out() {
    let output = shell("cat; echo no >&2; exit 3").expect("it ends");
    assert_eq!(
        (output.status.code(), &output.stdout[..], &output.stderr[..]),
        (Some(3), &b"input\n"[..], &b"no\n"[..])
    );
}

#[test]
fn a_program_that_does_not_end_is_ended_with_what_it_started() {
    let (began, timeout) = (Instant::now(), Duration::from_millis(200));
    let arguments = ["-c", "sleep 600 & sleep 600"];
    let error = run(&Run { program: "sh", arguments: &arguments, input: "", timeout, cancel: None });
    assert!(matches!(error, Err(RunError::TimedOut(_))), "{error:?}");
    assert!(began.elapsed() < LONG);
}

#[test]
fn a_cancelled_program_ends_with_what_it_started_and_nothing_begins_under_its_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("numbers");
    let script = format!("sleep 600 & (echo $$; echo $!) >{}; wait", file.display());
    let cancel = Arc::new(Cancel::default());
    let running = std::thread::spawn({
        let cancel = Arc::clone(&cancel);
        move || {
            run(&Run {
                program: "sh",
                arguments: &["-c", &script],
                input: "",
                timeout: LONG,
                cancel: Some(&cancel),
            })
        }
    });
    let numbers = numbers_in(&file);
    cancel.cancel();
    let ended = running.join().expect("a thread");
    assert!(matches!(ended, Err(RunError::Cancelled)), "{ended:?}");
    wait_until_gone(&numbers);
    let late = run(&Run { program: "true", arguments: &[], input: "", timeout: LONG, cancel: Some(&cancel) });
    assert!(matches!(late, Err(RunError::Cancelled)), "{late:?}");
}

#[test]
fn a_program_is_told_its_language_and_absolute_folders_and_little_else() {
    let output = shell("env; pwd").expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let known = ["PATH=/", "LC_ALL=C", "PWD=/", "SHLVL=", "_=", "OLDPWD=", "XTABLES_"];
    let unknown: Vec<&str> = text
        .lines()
        .filter(|line| *line != "/" && !known.iter().any(|known| line.starts_with(known)))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    assert_eq!(text.lines().last(), Some("/"), "it is not run where we happen to be");
}

#[test]
fn a_program_that_is_nowhere_is_an_error_of_its_own() {
    let missing =
        run(&Run { program: "no-such-program", arguments: &[], input: "", timeout: LONG, cancel: None });
    assert!(matches!(missing, Err(RunError::NotFound)), "{missing:?}");
}
