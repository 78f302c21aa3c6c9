//! Port names kept once: tens of thousands of Services call their ports `http`.
//!
//! Saves memory, and the names stay in the processor's cache. Changes no meaning.

use std::collections::HashSet;

use crate::PortName;

/// Names beyond this many are rare ones, and not worth keeping for ever.
const MOST: usize = 1024;

/// The names seen so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortNames(HashSet<PortName>);

impl PortNames {
    /// Replaces each name by the copy everybody shares.
    pub(crate) fn share<'a>(&mut self, names: impl Iterator<Item = &'a mut PortName>) {
        for name in names {
            match self.0.get(name) {
                Some(shared) => name.clone_from(shared),
                None if self.0.len() < MOST => drop(self.0.insert(name.clone())),
                None => {}
            }
        }
    }
}
