//! What memory is in use, and who allocated it: of every half a mebibyte, on average, one allocation with its stack.
//!
//! Switched on once, at the start; what was allocated before is not known. Which allocations are looked at is left to chance,
//! each byte being as likely as any other, so that what is in use can be estimated from what was seen: as Go does it, with
//! the same mean distance. See [`crate::sys::ProfiledAllocator`] for who tells of allocations.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

use super::StackCell;

/// The mean number of bytes between two allocations that are looked at.
pub const PERIOD: u32 = 512 * 1024;
/// Places for allocations that are in use: enough for four gibibytes. A bucket of pointers is one line of the cache.
const BUCKETS: usize = 1024;
const BUCKET: usize = 8;
/// The walk, the part in here, and the allocator's method.
const NOT_THE_PROGRAMS: usize = 3;
/// In place of a pointer, which is never so small: somebody is writing here.
const WRITING: usize = 1;

/// Estimates of what is in use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeapProfile {
    /// For each stack, innermost caller first.
    pub stacks: BTreeMap<Vec<usize>, InUse>,
    /// How many allocations found no place.
    pub lost: u64,
}

/// What a stack allocated and nobody freed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InUse {
    /// Allocations.
    pub objects: f64,
    /// Bytes.
    pub bytes: f64,
}

/// Switches it on, for good.
pub fn begin() {
    LEFT.store(distance(), Ordering::Relaxed);
    IS_ON.store(true, Ordering::Relaxed);
}

/// What is in use now, of what was allocated since it was switched on; `None` if it never was.
pub fn profile() -> Option<HeapProfile> {
    if !IS_ON.load(Ordering::Relaxed) {
        return None;
    }
    let mut profile = HeapProfile { lost: LOST.load(Ordering::Relaxed), ..HeapProfile::default() };
    for (pointers, places) in POINTERS.iter().zip(&PLACES) {
        for (pointer, place) in pointers.0.iter().zip(places) {
            if let Some((stack, size)) = place.read(pointer) {
                let estimate = InUse::of(size);
                let sum = profile.stacks.entry(stack).or_default();
                sum.objects += estimate.objects;
                sum.bytes += estimate.bytes;
            }
        }
    }
    Some(profile)
}

impl InUse {
    /// What one allocation of a size stands for that was met by chance: the fewer of its kind are looked at, the more.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn of(size: usize) -> Self {
        let objects = 1.0 / (1.0 - (-(size.max(1) as f64) / f64::from(PERIOD)).exp());
        Self { objects, bytes: objects * size as f64 }
    }
}

#[repr(align(64))]
struct Bucket([AtomicUsize; BUCKET]);

/// What is known of an allocation, while its pointer stands at the same place of the other table.
struct Place {
    /// Counts writers, so that a reader sees that there was one.
    version: AtomicU64,
    size: AtomicUsize,
    stack: StackCell,
}

static IS_ON: AtomicBool = AtomicBool::new(false);
/// Bytes until the next allocation that is looked at.
static LEFT: AtomicI64 = AtomicI64::new(0);
static CHANCE: AtomicU64 = AtomicU64::new(0x9E37_79B9_7F4A_7C15);
static LOST: AtomicU64 = AtomicU64::new(0);
static POINTERS: [Bucket; BUCKETS] = [const { Bucket([const { AtomicUsize::new(0) }; BUCKET]) }; BUCKETS];
static PLACES: [[Place; BUCKET]; BUCKETS] = [const { [const { Place::new() }; BUCKET] }; BUCKETS];

/// From the allocator: this was allocated, or not if the address is zero.
#[inline]
pub(crate) fn allocated(address: usize, size: usize) {
    if IS_ON.load(Ordering::Relaxed) {
        count(address, size);
    }
}

/// From the allocator: this is about to be freed.
#[inline]
pub(crate) fn freed(address: usize) {
    if IS_ON.load(Ordering::Relaxed) {
        forget(address);
    }
}

/// An allocation that is about to be moved. Meanwhile its place is neither free nor read, since another thread may be given the
/// same address before it is known how the move went.
pub(crate) struct Moving(Option<(&'static AtomicUsize, usize)>);

impl Moving {
    /// From the allocator: this is about to be moved.
    #[inline]
    pub(crate) fn from(address: usize) -> Self {
        if !IS_ON.load(Ordering::Relaxed) {
            return Self(None);
        }
        let pointer = pointer_to(address);
        if let Some(pointer) = pointer {
            pointer.store(WRITING, Ordering::Relaxed);
        }
        Self(pointer.map(|pointer| (pointer, address)))
    }

    /// From the allocator: it is there now, or where it was if the address is zero. The new one is told of as any other.
    #[inline]
    pub(crate) fn to(self, address: usize) {
        if let Some((pointer, before)) = self.0 {
            pointer.store(if address == 0 { before } else { 0 }, Ordering::Release);
        }
    }
}

#[inline(never)]
fn count(address: usize, size: usize) {
    let bytes = i64::try_from(size).unwrap_or(i64::MAX);
    let left = LEFT.fetch_sub(bytes, Ordering::Relaxed);
    // Of several threads the one that used the last byte up.
    if left <= 0 || left > bytes {
        return;
    }
    // Also if there was no memory, or nobody would ever use the last byte up again.
    LEFT.store(distance(), Ordering::Relaxed);
    if address == 0 {
        return;
    }
    let (pointers, places) = bucket(address);
    for (pointer, place) in pointers.0.iter().zip(places) {
        if pointer.compare_exchange(0, WRITING, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            place.version.fetch_add(1, Ordering::Relaxed);
            place.size.store(size, Ordering::Relaxed);
            place.stack.fill(NOT_THE_PROGRAMS, 0..0);
            pointer.store(address, Ordering::Release);
            return;
        }
    }
    LOST.fetch_add(1, Ordering::Relaxed);
}

fn forget(address: usize) {
    if let Some(pointer) = pointer_to(address) {
        pointer.store(0, Ordering::Release);
    }
}

fn pointer_to(address: usize) -> Option<&'static AtomicUsize> {
    let (pointers, _) = bucket(address);
    pointers.0.iter().find(|pointer| pointer.load(Ordering::Relaxed) == address)
}

fn bucket(address: usize) -> (&'static Bucket, &'static [Place; BUCKET]) {
    // Addresses are multiples of sixteen, and neighbours.
    let index = (address >> 4).wrapping_mul(0x9E37_79B9) >> 12 & (BUCKETS - 1);
    (&POINTERS[index], &PLACES[index])
}

/// How far to the next: exponentially distributed, which makes every byte as likely as any other.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "chance")]
fn distance() -> i64 {
    let mut bits = CHANCE.load(Ordering::Relaxed);
    bits ^= bits << 13;
    bits ^= bits >> 7;
    bits ^= bits << 17;
    CHANCE.store(bits, Ordering::Relaxed);
    let share = ((bits >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
    (-share.ln() * f64::from(PERIOD)) as i64 + 1
}

impl Place {
    const fn new() -> Self {
        Self { version: AtomicU64::new(0), size: AtomicUsize::new(0), stack: StackCell::new() }
    }

    /// What stands here, unless it is being written.
    fn read(&self, pointer: &AtomicUsize) -> Option<(Vec<usize>, usize)> {
        let before = self.version.load(Ordering::Acquire);
        if pointer.load(Ordering::Acquire) <= WRITING {
            return None;
        }
        let (stack, size) = (self.stack.read(), self.size.load(Ordering::Relaxed));
        std::sync::atomic::fence(Ordering::Acquire);
        (self.version.load(Ordering::Relaxed) == before).then_some((stack, size))
    }
}
