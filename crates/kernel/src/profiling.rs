//! Where time and memory go: stacks of the running program, as addresses.
//!
//! [`cpu`] takes them while the program uses a processor, [`heap`] when it allocates. Neither knows names of functions nor how
//! a profile is written; that is for whoever asks. What is unsafe about it is in [`crate::sys`].
//!
//! Both write from places where nothing may be allocated and no lock taken (a signal handler, the allocator itself), so what
//! they write to is fixed in size and made of atomics. Pages of it that nobody wrote to take no memory.

pub mod cpu;
pub mod heap;

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sys;

/// So many callers of a stack are kept, from the innermost.
const DEPTH: usize = 96;

/// A stack in a place that is written and read without a lock. Who may write when is for its owner to settle.
struct StackCell {
    length: AtomicUsize,
    addresses: [AtomicUsize; DEPTH],
}

impl StackCell {
    const fn new() -> Self {
        Self { length: AtomicUsize::new(0), addresses: [const { AtomicUsize::new(0) }; DEPTH] }
    }

    /// Writes the stack of this thread down, without the `skipped` innermost callers, counted from the walk itself, and up to the
    /// first caller in the code at `limit`.
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

    /// One address instead of a stack.
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
