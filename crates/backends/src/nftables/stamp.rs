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
    /// The version of the layout.
    pub layout: u32,
}

impl Stamp {
    /// The stamp of a commit that is to follow a generation.
    pub fn after(generation: u32, hash: StateHash) -> Self {
        Self { hash: hash.as_number(), generation: next_generation(generation), layout: LAYOUT }
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
        key.extend_from_slice(&self.layout.to_be_bytes());
        keys::element(SetName::Stamp.name(), key, None)
    }

    /// Reads an element back.
    pub fn read(element: &Element) -> Option<Self> {
        let (hash, rest) = element.key.split_first_chunk::<8>()?;
        let (generation, rest) = rest.split_first_chunk::<4>()?;
        let (layout, _) = rest.split_first_chunk::<4>()?;
        Some(Self {
            hash: u64::from_be_bytes(*hash),
            generation: u32::from_be_bytes(*generation),
            layout: u32::from_be_bytes(*layout),
        })
    }
}

/// The kernel counts generations up by one and leaves zero out.
pub fn next_generation(generation: u32) -> u32 {
    generation.checked_add(1).unwrap_or(1)
}
