//! What was programmed last, left in the kernel for the next start: a hash of the state and the generation it became.
//!
//! The generation changes with every commit of anybody, so a stamp that names the present one proves that nothing at all
//! has happened since. One element of sixteen bytes, which nft shows as an IPv6 address.

use ferrule_kernel::nft::{Element, KeyBytes};

use super::hash::StateHash;
use super::keys;
use super::names::SetName;
use super::program::LAYOUT;

/// A stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Tells one state from another.
    pub hash: u64,
    /// The generation that the commit became; zero, which is none, if somebody else may have touched the table before.
    pub generation: u32,
    /// How many commits up to this one followed each other without anybody else's in between, as far as they were counted.
    pub run: u32,
    /// The version of the layout.
    pub layout: u8,
}

/// More commits in a row than this are not counted: there is room for three bytes.
const LONGEST_RUN: u32 = (1 << 24) - 1;

impl Stamp {
    /// The stamp of a commit that is to follow a generation, which so many commits of ours had led to without anybody else's.
    pub fn after(generation: u32, run: u32, hash: StateHash) -> Self {
        let (generation, run) = (next_generation(generation), run.saturating_add(1).min(LONGEST_RUN));
        Self { hash: hash.as_number(), generation, run, layout: LAYOUT }
    }

    /// The same, where we do not know the table to be as we left it: the next start must read it.
    #[must_use]
    pub fn without_proof(self) -> Self {
        Self { generation: 0, ..self }
    }

    /// The element that says so.
    pub fn element(self) -> Element {
        let mut key = KeyBytes::new();
        key.extend_from_slice(&self.hash.to_be_bytes());
        key.extend_from_slice(&self.generation.to_be_bytes());
        key.extend_from_slice(&(u32::from(self.layout) << 24 | self.run.min(LONGEST_RUN)).to_be_bytes());
        keys::element(SetName::Stamp.name(), key, None)
    }

    /// Reads an element back.
    pub fn read(element: &Element) -> Option<Self> {
        let (hash, rest) = element.key.split_first_chunk::<8>()?;
        let (generation, rest) = rest.split_first_chunk::<4>()?;
        let (last, _) = rest.split_first_chunk::<4>()?;
        let [layout, ..] = *last;
        Some(Self {
            hash: u64::from_be_bytes(*hash),
            generation: u32::from_be_bytes(*generation),
            run: u32::from_be_bytes(*last) & LONGEST_RUN,
            layout,
        })
    }
}

/// The kernel counts generations up by one and leaves zero out.
pub fn next_generation(generation: u32) -> u32 {
    generation.checked_add(1).unwrap_or(1)
}
