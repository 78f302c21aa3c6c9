//! Stacks that are taken. Profiles belong to the whole process, so there is one test for each.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

#[inline(never)]
fn busy(until: Instant) -> u64 {
    let mut sum: u64 = 1;
    while Instant::now() < until {
        for number in 0..10_000 {
            sum = std::hint::black_box(sum.wrapping_mul(31) ^ number);
        }
    }
    sum
}

/// As soon as nobody else takes one.
fn profile(duration: Duration, is_given_up: bool) -> cpu::CpuProfile {
    let began = Instant::now();
    loop {
        match cpu::profile(duration, &AtomicBool::new(is_given_up)) {
            Err(cpu::CpuProfileError::Busy) if began.elapsed() < PATIENCE => std::thread::yield_now(),
            result => return result.expect("a timer"),
        }
    }
}

#[test]
fn a_busy_thread_is_met_about_as_often_as_it_is_busy() {
    let is_done = AtomicBool::new(false);
    let profile = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                std::hint::black_box(busy(Instant::now() + Duration::from_millis(10)));
            }
        });
        let profile = profile(Duration::from_secs(1), false);
        is_done.store(true, Ordering::Relaxed);
        profile
    });
    let met: u64 = profile.stacks.values().sum();
    assert!(met >= 20, "{met} stacks of a second of work");
    assert_eq!(profile.lost, 0);
    let deep = profile.stacks.keys().filter(|stack| stack.len() > 3).count();
    assert!(deep * 2 > profile.stacks.len(), "stacks are cut short: {profile:?}");
}

/// Something to clean up in every frame, so that unwinding stops at each.
fn unwound(frames: u32) -> Vec<u32> {
    let mut held = vec![frames];
    if frames == 0 {
        // Like a panic, without its message.
        std::panic::resume_unwind(Box::new(()));
    }
    held.extend(unwound(frames - 1));
    held
}

/// Whoever walks the stack of a thread that is just leaving a frame goes astray: seen as a crash within seconds.
#[test]
fn threads_that_unwind_are_met_and_do_no_harm() {
    let is_done = AtomicBool::new(false);
    let profile = std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    let _ = std::panic::catch_unwind(|| unwound(20));
                }
            });
        }
        let profile = profile(Duration::from_secs(3), false);
        is_done.store(true, Ordering::Relaxed);
        profile
    });
    assert!(profile.stacks.values().sum::<u64>() >= 20, "{profile:?}");
}

#[inline(never)]
fn walked(limit: Range<usize>) -> Vec<usize> {
    let cell = StackCell::new();
    cell.fill(0, limit);
    cell.read()
}

#[test]
fn a_walk_ends_at_the_code_it_must_not_pass() {
    let all = walked(0..0);
    assert!(all.len() > 4, "{all:?}");
    // A return address is one beyond what is written down.
    let cut = walked(all[3] + 1..all[3] + 2);
    assert_eq!((cut.len(), cut[3]), (4, all[3]), "{cut:?} of {all:?}");
}

#[test]
fn one_profile_is_taken_at_a_time() {
    std::thread::scope(|scope| {
        let taking = scope.spawn(|| profile(Duration::from_secs(1), false));
        let began = Instant::now();
        let ask = || cpu::profile(Duration::from_millis(1), &AtomicBool::new(true));
        while !matches!(ask(), Err(cpu::CpuProfileError::Busy)) {
            assert!(began.elapsed() < PATIENCE, "nobody is refused");
            std::thread::yield_now();
        }
        taking.join().expect("no panic");
    });
}

#[test]
fn a_profile_that_nobody_waits_for_ends() {
    let profile = profile(Duration::from_mins(10), true);
    assert!(profile.took < PATIENCE, "{profile:?}");
}

#[test]
fn what_is_in_use_is_estimated_from_what_was_met_and_gone_when_freed() {
    assert_eq!(heap::profile(), None);
    heap::enable();
    // Addresses nobody has; the allocator of tests does not report its own.
    let addresses = || (1..=4096_usize).map(|number| number << 16);
    let size = 64 * 1024;
    for address in addresses() {
        heap::allocated(address, size);
    }
    let sum = |profile: &heap::HeapProfile| profile.stacks.values().map(|in_use| in_use.bytes).sum::<f64>();
    let profile = heap::profile().expect("it is on");
    let total = f64::from(256 * 1024 * 1024);
    let share = sum(&profile) / total;
    assert!((0.8..1.25).contains(&share), "estimated {share} of what there is");
    assert_eq!(profile.lost, 0);
    assert!(profile.stacks.keys().all(|stack| stack.len() > 1));
    // Moves that fail change nothing; those that do not leave the old place.
    for address in addresses() {
        heap::Moving::from(address).to(0);
    }
    assert_eq!(heap::profile().expect("it is on"), profile);
    for address in addresses() {
        heap::Moving::from(address).to(address + 16);
    }
    assert_eq!(heap::profile().expect("it is on").stacks.len(), 0);
    // There was no memory for the one that would have been looked at; the next ones are met all the same.
    heap::allocated(0, 64 << 20);
    for address in addresses() {
        heap::allocated(address, size);
    }
    assert!(sum(&heap::profile().expect("it is on")) > 0.5 * total);
    for address in addresses() {
        heap::freed(address);
    }
    assert_eq!(heap::profile().expect("it is on").stacks.len(), 0);
}
