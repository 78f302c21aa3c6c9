//! Profiles of the running program, in the form that `go tool pprof` and others of its kind read.
//!
//! Taking them is the work of [`ferrule_kernel::profiling`]; here their addresses get names (`symbols`) and are written
//! (`pprof`). Who may ask, and how, is in [`crate::http`].

mod mappings;
mod pprof;
mod symbols;

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, TryLockError};
use std::time::Duration;

use ferrule_kernel::profiling::cpu::{self, CpuProfileError};
use ferrule_kernel::profiling::heap;
use ferrule_kernel::sys;

use pprof::{Kind, Profile};
use symbols::Symbols;

const NANOSECONDS: Kind = Kind { name: "cpu", unit: "nanoseconds" };
const SAMPLES: Kind = Kind { name: "samples", unit: "count" };
const OBJECTS: Kind = Kind { name: "inuse_objects", unit: "count" };
const BYTES: Kind = Kind { name: "inuse_space", unit: "bytes" };
const SPACE: Kind = Kind { name: "space", unit: "bytes" };

/// What used the processor, for so long from now, or until nobody wants to know any more.
pub fn of_processor(duration: Duration, is_given_up: &AtomicBool) -> Result<Vec<u8>, CpuProfileError> {
    let taken = cpu::profile(duration, is_given_up)?;
    let period = nanoseconds(cpu::PERIOD);
    let mut profile = Profile::new([SAMPLES, NANOSECONDS], (NANOSECONDS, period));
    profile.took = nanoseconds(taken.took);
    profile.note_lost(taken.lost);
    for (stack, times) in &taken.stacks {
        let times = i64::try_from(*times).unwrap_or(i64::MAX);
        profile.add(stack, [times, times.saturating_mul(period)]);
    }
    Ok(written(&profile))
}

/// Why there is no profile of what memory is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeapProfileError {
    /// One at a time: writing one takes more memory than the program itself.
    #[error("another heap profile is being written; ask again when it is done")]
    Busy,
    /// Nobody has kept an eye on it.
    #[error("allocations were not recorded from the start, so nothing is known of them")]
    NotRecorded,
}

/// What memory is in use, of all that was allocated since the start.
#[expect(clippy::cast_possible_truncation, reason = "estimates, rounded")]
pub fn of_heap() -> Result<Vec<u8>, HeapProfileError> {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = match TURN.try_lock() {
        Ok(turn) => turn,
        Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
        Err(TryLockError::WouldBlock) => return Err(HeapProfileError::Busy),
    };
    let taken = heap::profile().ok_or(HeapProfileError::NotRecorded)?;
    let mut profile = Profile::new([OBJECTS, BYTES], (SPACE, i64::from(heap::PERIOD)));
    profile.note_lost(taken.lost);
    for (stack, in_use) in &taken.stacks {
        profile.add(stack, [in_use.objects.round() as i64, in_use.bytes.round() as i64]);
    }
    Ok(written(&profile))
}

/// In the end as little memory is held as before: names are looked up in tables larger than what the program itself needs.
fn written(profile: &Profile) -> Vec<u8> {
    let mappings = mappings::own();
    let symbols = Symbols::read(&mappings);
    let bytes = profile.written(&mappings, |address| symbols.of(address));
    drop(symbols);
    sys::give_back_freed_memory();
    bytes
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
