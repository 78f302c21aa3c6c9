//! The program ends when it is told to, whatever it waits for, and leaves nobody behind.

use std::time::{Duration, Instant};

use ferrule_testkit::netns::or_skip;

use crate::fakes::{Fakes, is_running};
use crate::stand::{Stand, until};

/// Never ends, and neither does what it started; their numbers are in a file.
const HANGS: &str = "sleep 600 & (echo $$; echo $!) >>$HERE/numbers; wait";
/// Never ends, alone.
const HANGS_ALONE: &str = "echo $$ >>$HERE/numbers; exec sleep 600";

/// Row: server 3.17, 10.1
#[test]
fn a_signal_ends_it_promptly_though_a_program_hangs_and_nothing_it_started_goes_on() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    let fakes = Fakes::everywhere(HANGS);
    let program = fakes.start(&stand, &[]);
    let started = fakes.numbers("numbers", 2);
    let began = Instant::now();
    let status = program.terminate().expect("it ends");
    assert!(began.elapsed() < Duration::from_secs(10), "it took {:?}", began.elapsed());
    assert_eq!(status.code(), Some(0));
    until(|| (!started.iter().any(|process| is_running(*process))).then_some(()));
}

#[test]
fn a_program_that_hangs_is_killed_with_us() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    let fakes = Fakes::everywhere(HANGS_ALONE);
    let program = fakes.start(&stand, &[]);
    let started = fakes.numbers("numbers", 1);
    program.kill().expect("it is killed");
    until(|| (!started.iter().any(|process| is_running(*process))).then_some(()));
}
