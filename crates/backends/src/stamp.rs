//! Left in the kernel by every commit, for the next start: a hash of the state and the generation the commit became.
//!
//! Every commit of any program changes the generation, so a stamp that names the present one proves that nothing happened
//! since. Sixteen bytes, kept where a mode has room for them.

use crate::StateHash;

/// The content of a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Identifies the state.
    pub hash: u64,
    /// The generation that the commit became; zero, which no commit becomes, if another program may have touched the table before.
    pub generation: u32,
    /// How many commits of ours up to this one followed each other without a foreign one, as far as they were counted.
    pub run: u32,
    /// The version of the mode's layout.
    pub layout: u8,
}

/// Longer runs are not counted: there is room for three bytes.
const MAX_RUN: u32 = (1 << 24) - 1;

impl Stamp {
    /// The stamp of a commit that follows a generation, which a run of so many commits of ours had led to.
    pub fn after(generation: u32, run: u32, hash: StateHash, layout: u8) -> Self {
        let (generation, run) = (next_generation(generation), run.saturating_add(1).min(MAX_RUN));
        Self { hash: hash.as_number(), generation, run, layout }
    }

    /// The same for a table that may not be as we left it: the next start must read it.
    #[must_use]
    pub fn without_proof(self) -> Self {
        Self { generation: 0, ..self }
    }

    /// The stamp as bytes.
    pub fn to_bytes(self) -> [u8; 16] {
        let last = u32::from(self.layout) << 24 | self.run.min(MAX_RUN);
        let number = u128::from(self.hash) << 64 | u128::from(self.generation) << 32 | u128::from(last);
        number.to_be_bytes()
    }

    /// Reads bytes back; there may be more behind them.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (hash, rest) = bytes.split_first_chunk::<8>()?;
        let (generation, rest) = rest.split_first_chunk::<4>()?;
        let (last, _) = rest.split_first_chunk::<4>()?;
        let [layout, ..] = *last;
        Some(Self {
            hash: u64::from_be_bytes(*hash),
            generation: u32::from_be_bytes(*generation),
            run: u32::from_be_bytes(*last) & MAX_RUN,
            layout,
        })
    }
}

/// The generation before another.
pub fn previous_generation(generation: u32) -> u32 {
    match generation.wrapping_sub(1) {
        0 => u32::MAX,
        previous => previous,
    }
}

/// The kernel counts generations up by one and leaves zero out.
pub fn next_generation(generation: u32) -> u32 {
    generation.checked_add(1).unwrap_or(1)
}
