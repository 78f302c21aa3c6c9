//! CPU profile: one stack for every ten milliseconds of CPU time that the program uses.
//!
//! The signal handler records stacks in slots, and the thread that takes the profile drains them. If it is late, stacks are lost,
//! and counted. Without a profile there is no timer, and nothing is interrupted.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::StackCell;
use crate::sys;

/// The CPU time that one sample stands for, the same as in Go.
pub const PERIOD: Duration = Duration::from_millis(10);
/// How often slots are drained.
const DRAIN_INTERVAL: Duration = Duration::from_millis(50);
/// Enough for a hundred busy CPUs between two drains.
const SLOTS: usize = 512;
/// The walk, [`interrupted`], the handler, and the kernel's frame around it.
const SKIPPED_FRAMES: usize = 4;

/// Stacks that used CPU time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuProfile {
    /// Each stack, innermost frame first, and its number of samples.
    pub stacks: BTreeMap<Vec<usize>, u64>,
    /// Samples that found no free slot.
    pub lost: u64,
    /// How long the profile took.
    pub took: Duration,
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum CpuProfileError {
    /// One at a time: the process has only one such timer.
    #[error("another CPU profile is being taken; try again when it is done")]
    Busy,
    /// The unwinder was not found.
    #[error("finding the library that walks stacks")]
    Unwinder(#[source] io::Error),
    /// The timer could not be started.
    #[error("starting the timer of a CPU profile")]
    Timer(#[source] io::Error),
}

#[expect(clippy::disallowed_methods, reason = "a profile takes its time")]
/// Samples for this long, or until it is cancelled.
pub fn profile(duration: Duration, is_cancelled: &AtomicBool) -> Result<CpuProfile, CpuProfileError> {
    let _turn = Turn::take().ok_or(CpuProfileError::Busy)?;
    let began = Instant::now();
    let mut profile = CpuProfile::default();
    drain(&mut BTreeMap::new());
    LOST.store(0, Ordering::Relaxed);
    UNWINDER.find().map_err(CpuProfileError::Unwinder)?;
    let timer = Timer::start().map_err(CpuProfileError::Timer)?;
    while began.elapsed() < duration && !is_cancelled.load(Ordering::Relaxed) {
        std::thread::sleep(DRAIN_INTERVAL.min(duration.saturating_sub(began.elapsed())));
        drain(&mut profile.stacks);
    }
    drop(timer);
    drain(&mut profile.stacks);
    Ok(CpuProfile { lost: LOST.load(Ordering::Relaxed), took: began.elapsed(), ..profile })
}

static SAMPLES: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];
static NEXT: AtomicUsize = AtomicUsize::new(0);
static LOST: AtomicU64 = AtomicU64::new(0);
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The code of the unwinder. While a panic makes it drop a frame, that frame is inconsistent, and a stack walk at that moment
/// would go astray. So a sample in this range is counted but not walked, and a walk through what the unwinder called, such as
/// the search for a table, ends where it reaches the unwinder.
static UNWINDER: CodeRange = CodeRange { start: AtomicUsize::new(0), end: AtomicUsize::new(0) };

struct CodeRange {
    start: AtomicUsize,
    end: AtomicUsize,
}

impl CodeRange {
    fn range(&self) -> Range<usize> {
        self.start.load(Ordering::Relaxed)..self.end.load(Ordering::Relaxed)
    }

    /// Finds it in the process's mappings. Without it no profile is taken.
    fn find(&self) -> io::Result<()> {
        let maps = std::fs::read_to_string("/proc/self/maps")?;
        let (start, end) = unwinder(&maps).ok_or_else(|| io::Error::other("the unwinder was not found"))?;
        self.start.store(start, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
        Ok(())
    }
}

/// The executable mapping of libgcc.
fn unwinder(maps: &str) -> Option<(usize, usize)> {
    let is_it = |line: &&str| line.contains(" r-xp ") && line.contains("/libgcc_s");
    let (start, end) = maps.lines().find(is_it)?.split_whitespace().next()?.split_once('-')?;
    let number = |hex| usize::from_str_radix(hex, 16).ok();
    Some((number(start)?, number(end)?))
}

const EMPTY: usize = 0;
const WRITING: usize = 1;
const FULL: usize = 2;

struct Slot {
    state: AtomicUsize,
    stack: StackCell,
}

impl Slot {
    const fn new() -> Self {
        Self { state: AtomicUsize::new(EMPTY), stack: StackCell::new() }
    }
}

/// Called by the signal handler with the interrupted instruction. If it is unknown, so is whether the stack may be walked.
#[inline(never)]
pub(crate) fn interrupted(at: Option<usize>) {
    let Some(at) = at else {
        LOST.fetch_add(1, Ordering::Relaxed);
        return;
    };
    let slot = &SAMPLES[NEXT.fetch_add(1, Ordering::Relaxed) % SLOTS];
    if slot.state.compare_exchange(EMPTY, WRITING, Ordering::Acquire, Ordering::Relaxed).is_err() {
        LOST.fetch_add(1, Ordering::Relaxed);
        return;
    }
    if UNWINDER.range().contains(&at) {
        slot.stack.set(at);
    } else {
        slot.stack.fill(SKIPPED_FRAMES, UNWINDER.range());
    }
    slot.state.store(FULL, Ordering::Release);
}

fn drain(stacks: &mut BTreeMap<Vec<usize>, u64>) {
    for slot in SAMPLES.iter().filter(|slot| slot.state.load(Ordering::Acquire) == FULL) {
        *stacks.entry(slot.stack.read()).or_default() += 1;
        slot.state.store(EMPTY, Ordering::Release);
    }
}

/// Interrupts the program until it is dropped.
struct Timer;

impl Timer {
    fn start() -> io::Result<Self> {
        sys::interrupt_every(PERIOD).map(|()| Self)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // Stopping a timer that was started does not fail; if it did, the slots would merely fill up.
        let _ = sys::interrupt_every(Duration::ZERO);
    }
}

/// Held by the thread that takes a profile.
struct Turn;

impl Turn {
    fn take() -> Option<Self> {
        // Constructed only on success: dropping it releases the flag.
        (!IS_TAKEN.swap(true, Ordering::AcqRel)).then(|| Self)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        IS_TAKEN.store(false, Ordering::Release);
    }
}
