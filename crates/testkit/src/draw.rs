//! Pseudo-random numbers from a seed, so that a failing case can be repeated by its number.

/// A stream of numbers.
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// Equal seeds give equal numbers.
    pub fn of(seed: u64) -> Self {
        Self(seed.wrapping_mul(7919))
    }

    /// A number below a limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    /// True with a probability of `of_ten` tenths.
    pub fn chance(&mut self, of_ten: u64) -> bool {
        self.below(10) < of_ten
    }

    /// One element of a slice that must not be empty.
    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let at = usize::try_from(self.below(all.len() as u64)).unwrap_or_default();
        &all[at]
    }

    /// Each element with a probability of `of_ten` tenths, in order.
    pub fn some_of<T: Clone>(&mut self, all: &[T], of_ten: u64) -> Vec<T> {
        all.iter().filter(|_| self.chance(of_ten)).cloned().collect()
    }
}
