//! Heap profile: one sampled allocation with its stack for every 512 KiB on average.
//!
//! Enabled once, at the start; earlier allocations are not known. Sampling is random, each byte being as likely as any other, so
//! that the heap in use can be estimated from the samples: the method of Go, with the same mean distance.
//! [`crate::sys::ProfiledAllocator`] reports allocations.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

use super::StackCell;

/// The mean number of bytes between two samples.
pub const PERIOD: u32 = 512 * 1024;
/// Slots for sampled allocations in use: enough for 4 GiB. A bucket of pointers is one cache line.
const BUCKETS: usize = 1024;
const BUCKET: usize = 8;
/// The walk, [`count`], and the allocator's method.
const SKIPPED_FRAMES: usize = 3;
/// In slot of a pointer: the slot is being written.
const WRITING: usize = 1;

/// Estimates of the heap in use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeapProfile {
    /// By stack, innermost frame first.
    pub stacks: BTreeMap<Vec<usize>, InUse>,
    /// Samples that found no free slot.
    pub lost: u64,
}

/// What a stack allocated and was not freed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InUse {
    /// Allocations.
    pub objects: f64,
    /// Bytes.
    pub bytes: f64,
}

/// Enables sampling for the rest of the process.
pub fn enable() {
    LEFT.store(distance(), Ordering::Relaxed);
    IS_ON.store(true, Ordering::Relaxed);
}

/// The heap in use now, of what was allocated since sampling was enabled; `None` if it never was.
pub fn profile() -> Option<HeapProfile> {
    if !IS_ON.load(Ordering::Relaxed) {
        return None;
    }
    let mut profile = HeapProfile { lost: LOST.load(Ordering::Relaxed), ..HeapProfile::default() };
    for (pointers, slots) in POINTERS.iter().zip(&SLOTS) {
        for (pointer, slot) in pointers.0.iter().zip(slots) {
            if let Some((stack, size)) = slot.read(pointer) {
                let estimate = InUse::estimate(size);
                let sum = profile.stacks.entry(stack).or_default();
                sum.objects += estimate.objects;
                sum.bytes += estimate.bytes;
            }
        }
    }
    Some(profile)
}

impl InUse {
    /// What one sampled allocation stands for: small ones are sampled rarely, and so stand for more.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn estimate(size: usize) -> Self {
        let objects = 1.0 / (1.0 - (-(size.max(1) as f64) / f64::from(PERIOD)).exp());
        Self { objects, bytes: objects * size as f64 }
    }
}

#[repr(align(64))]
struct Bucket([AtomicUsize; BUCKET]);

/// A sampled allocation, valid while its pointer is at the same index of [`POINTERS`].
struct Slot {
    /// Counts writes, so that a reader notices one.
    version: AtomicU64,
    size: AtomicUsize,
    stack: StackCell,
}

static IS_ON: AtomicBool = AtomicBool::new(false);
/// Bytes until the next sample.
static LEFT: AtomicI64 = AtomicI64::new(0);
static CHANCE: AtomicU64 = AtomicU64::new(0x9E37_79B9_7F4A_7C15);
static LOST: AtomicU64 = AtomicU64::new(0);
static POINTERS: [Bucket; BUCKETS] = [const { Bucket([const { AtomicUsize::new(0) }; BUCKET]) }; BUCKETS];
static SLOTS: [[Slot; BUCKET]; BUCKETS] = [const { [const { Slot::new() }; BUCKET] }; BUCKETS];

/// Called after an allocation; an address of zero means that it failed.
#[inline]
pub(crate) fn allocated(address: usize, size: usize) {
    if IS_ON.load(Ordering::Relaxed) {
        count(address, size);
    }
}

/// Called before memory is freed.
#[inline]
pub(crate) fn freed(address: usize) {
    if IS_ON.load(Ordering::Relaxed) {
        forget(address);
    }
}

/// A reallocation in progress. Meanwhile the slot is neither free nor read, since another thread may be given the old address
/// before the outcome is known.
pub(crate) struct Moving(Option<(&'static AtomicUsize, usize)>);

impl Moving {
    /// Called before a reallocation.
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

    /// Called after a reallocation with the new address; zero means that it failed. The new one is reported like any other.
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
    // Only the thread that used up the last byte samples.
    if left <= 0 || left > bytes {
        return;
    }
    // Also if the allocation failed: otherwise nothing would ever be sampled again.
    LEFT.store(distance(), Ordering::Relaxed);
    if address == 0 {
        return;
    }
    let (pointers, slots) = bucket(address);
    for (pointer, slot) in pointers.0.iter().zip(slots) {
        if pointer.compare_exchange(0, WRITING, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            slot.version.fetch_add(1, Ordering::Relaxed);
            slot.size.store(size, Ordering::Relaxed);
            slot.stack.fill(SKIPPED_FRAMES, 0..0);
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

fn bucket(address: usize) -> (&'static Bucket, &'static [Slot; BUCKET]) {
    // Addresses are multiples of sixteen, and neighbours.
    let index = (address >> 4).wrapping_mul(0x9E37_79B9) >> 12 & (BUCKETS - 1);
    (&POINTERS[index], &SLOTS[index])
}

/// The distance to the next sample: exponentially distributed, which makes every byte equally likely.
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

impl Slot {
    const fn new() -> Self {
        Self { version: AtomicU64::new(0), size: AtomicUsize::new(0), stack: StackCell::new() }
    }

    /// The sample, unless it is being written.
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
