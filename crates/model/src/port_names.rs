//! Port names interned: tens of thousands of Services call their ports `http`.
//!
//! Saves memory, and the names stay in the processor's cache. Changes no meaning.

use std::collections::HashSet;

use crate::PortName;

/// Names beyond this many are rare ones, and not worth keeping for ever.
const MAX_SHARED_NAMES: usize = 1024;

/// The names seen so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortNames(HashSet<PortName>);

/// A cache is no part of the state it serves: any two are equal.
impl PartialEq for PortNames {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl PortNames {
    /// Replaces each name by the shared copy.
    pub(crate) fn share<'a>(&mut self, names: impl Iterator<Item = &'a mut PortName>) {
        for name in names {
            match self.0.get(name) {
                Some(shared) => name.clone_from(shared),
                None if self.0.len() < MAX_SHARED_NAMES => drop(self.0.insert(name.clone())),
                None => {}
            }
        }
    }
}
