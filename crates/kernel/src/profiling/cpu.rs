//! Where processor time goes: for every ten milliseconds of it that the program uses, the stack that used them.
//!
//! The signal handler puts stacks into slots, and the thread that asked for the profile empties them. If it is late, stacks are
//! lost, and counted. While nobody asks there is no timer, and nothing is interrupted.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::StackCell;
use crate::sys;

/// How much processor time a stack stands for; as Go has it.
pub const PERIOD: Duration = Duration::from_millis(10);
/// How often slots are emptied.
const PAUSE: Duration = Duration::from_millis(50);
/// Enough for a hundred busy processors between two looks.
const SLOTS: usize = 512;
/// The walk, the handler's part in here, the handler, and what the kernel puts around it.
const NOT_THE_PROGRAMS: usize = 4;

/// Stacks that used the processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuProfile {
    /// Each stack, innermost caller first, and how often it was met.
    pub stacks: BTreeMap<Vec<usize>, u64>,
    /// How many more there were that found no slot.
    pub lost: u64,
    /// How long it was looked.
    pub took: Duration,
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum CpuProfileError {
    /// One at a time: the process has but one such timer.
    #[error("another processor profile is being taken; ask again when it is done")]
    Busy,
    /// Stacks cannot be walked.
    #[error("finding the library that walks stacks")]
    Unwinder(#[source] io::Error),
    /// The system does not let us.
    #[error("starting the timer of a processor profile")]
    Timer(#[source] io::Error),
}

#[expect(clippy::disallowed_methods, reason = "a profile is a look for a while")]
/// Watches for so long, or until nobody wants it any more.
pub fn profile(duration: Duration, is_given_up: &AtomicBool) -> Result<CpuProfile, CpuProfileError> {
    let _turn = Turn::take().ok_or(CpuProfileError::Busy)?;
    let began = Instant::now();
    let mut profile = CpuProfile::default();
    drain(&mut BTreeMap::new());
    LOST.store(0, Ordering::Relaxed);
    UNWINDER.find().map_err(CpuProfileError::Unwinder)?;
    let timer = Timer::start().map_err(CpuProfileError::Timer)?;
    while began.elapsed() < duration && !is_given_up.load(Ordering::Relaxed) {
        std::thread::sleep(PAUSE.min(duration.saturating_sub(began.elapsed())));
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

/// Where the code lies that unwinds stacks. While a panic makes it leave a frame behind, that frame is neither here nor there:
/// whoever walks the stack in that moment goes astray. So what is interrupted there is counted, and not walked; and a walk
/// through what the unwinder called, such as the search for a table, ends where it comes to the unwinder.
static UNWINDER: CodeRange = CodeRange { start: AtomicUsize::new(0), end: AtomicUsize::new(0) };

struct CodeRange {
    start: AtomicUsize,
    end: AtomicUsize,
}

impl CodeRange {
    fn range(&self) -> Range<usize> {
        self.start.load(Ordering::Relaxed)..self.end.load(Ordering::Relaxed)
    }

    /// Finds it among what is mapped. Without it nothing is walked.
    fn find(&self) -> io::Result<()> {
        let maps = std::fs::read_to_string("/proc/self/maps")?;
        let (start, end) = unwinder(&maps).ok_or_else(|| io::Error::other("the unwinder was not found"))?;
        self.start.store(start, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
        Ok(())
    }
}

/// The code of the library that unwinds, from a listing of what is mapped.
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

/// From the signal handler: who was interrupted, and at which instruction, if this machine tells? If not, nobody knows whether the
/// stack may be walked.
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
        slot.stack.fill(NOT_THE_PROGRAMS, UNWINDER.range());
    }
    slot.state.store(FULL, Ordering::Release);
}

fn drain(stacks: &mut BTreeMap<Vec<usize>, u64>) {
    for slot in SAMPLES.iter().filter(|slot| slot.state.load(Ordering::Acquire) == FULL) {
        *stacks.entry(slot.stack.read()).or_default() += 1;
        slot.state.store(EMPTY, Ordering::Release);
    }
}

/// While there is one, the program is interrupted.
struct Timer;

impl Timer {
    fn start() -> io::Result<Self> {
        sys::interrupt_every(PERIOD).map(|()| Self)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // To stop a timer that could be started does not fail; should it, the slots fill up and that is all.
        let _ = sys::interrupt_every(Duration::ZERO);
    }
}

/// Whoever has it takes a profile.
struct Turn;

impl Turn {
    fn take() -> Option<Self> {
        // Made only if it is ours: dropping it gives it back.
        (!IS_TAKEN.swap(true, Ordering::AcqRel)).then(|| Self)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        IS_TAKEN.store(false, Ordering::Release);
    }
}
