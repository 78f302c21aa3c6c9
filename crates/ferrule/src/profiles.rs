//! Profiles of the running process in pprof format, for `go tool pprof` and compatible tools.
//!
//! Samples are taken by [`ferrule_kernel::profiling`]; here addresses are symbolised (`symbols`) and encoded (`pprof`). The
//! endpoints are in [`crate::http`].

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

/// A CPU profile of this duration, or until it is cancelled.
pub fn cpu_profile(duration: Duration, is_cancelled: &AtomicBool) -> Result<Vec<u8>, CpuProfileError> {
    let taken = cpu::profile(duration, is_cancelled)?;
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

/// Why there is no heap profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeapProfileError {
    /// One at a time: encoding one takes more memory than the program itself.
    #[error("another heap profile is being written; ask again when it is done")]
    Busy,
    /// Sampling was not enabled at the start.
    #[error("allocations were not recorded from the start, so nothing is known of them")]
    NotRecorded,
}

/// The heap in use, of what was allocated since the start.
#[expect(clippy::cast_possible_truncation, reason = "estimates, rounded")]
pub fn heap_profile() -> Result<Vec<u8>, HeapProfileError> {
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

/// Trims the heap afterwards: symbol tables are larger than everything else in memory.
fn written(profile: &Profile) -> Vec<u8> {
    let mut mappings = mappings::own();
    let symbols = Symbols::read(&mappings);
    symbols.identify(&mut mappings);
    let bytes = profile.written(&mappings, |address| symbols.of(address));
    drop(symbols);
    sys::trim_heap();
    bytes
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
