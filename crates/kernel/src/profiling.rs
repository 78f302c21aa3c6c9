//! Samples of CPU time and heap use, as stacks of addresses.
//!
//! [`cpu`] samples while the program uses CPU time, [`heap`] when it allocates. Symbols and file formats are up to the caller.
//! The unsafe parts are in [`crate::sys`].
//!
//! Both record where nothing may be allocated and no lock taken (in a signal handler, in the allocator itself), so they write to
//! statics of fixed size made of atomics. Pages that were never written to take no memory.

pub mod cpu;
pub mod heap;

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sys;

/// Frames kept of a stack, from the innermost.
const DEPTH: usize = 96;

/// A stack that is written and read without a lock. The owner makes sure that there is one writer.
struct StackCell {
    length: AtomicUsize,
    addresses: [AtomicUsize; DEPTH],
}

impl StackCell {
    const fn new() -> Self {
        Self { length: AtomicUsize::new(0), addresses: [const { AtomicUsize::new(0) }; DEPTH] }
    }

    /// Records the stack of this thread, without the `skipped` innermost frames, counted from the walk itself, up to the first
    /// frame whose code is in `limit`.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the number of callers to be left out must not depend on the optimiser"
    )]
    fn fill(&self, skipped: usize, limit: Range<usize>) {
        let mut addresses = [0; DEPTH];
        let length = sys::walk_stack(&mut addresses, skipped, limit);
        for (place, address) in self.addresses.iter().zip(&addresses[..length]) {
            place.store(*address, Ordering::Relaxed);
        }
        self.length.store(length, Ordering::Relaxed);
    }

    /// Records a single address.
    fn set(&self, address: usize) {
        self.addresses[0].store(address, Ordering::Relaxed);
        self.length.store(1, Ordering::Relaxed);
    }

    fn read(&self) -> Vec<usize> {
        let length = self.length.load(Ordering::Relaxed).min(DEPTH);
        self.addresses[..length].iter().map(|place| place.load(Ordering::Relaxed)).collect()
    }
}

#[cfg(test)]
mod tests;
