//! How many want a thing, for things that several want.

use std::collections::BTreeMap;

/// Things with the number of those who want them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Counts<K>(BTreeMap<K, u32>);

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Clone> Counts<K> {
    /// One more wants it; whether it is the first.
    pub(super) fn want(&mut self, thing: K) -> bool {
        let count = self.0.entry(thing).or_default();
        *count += 1;
        *count == 1
    }

    /// One less wants it; whether it was the last.
    pub(super) fn let_go(&mut self, thing: &K) -> bool {
        let Some(count) = self.0.get_mut(thing) else { return false };
        *count -= 1;
        let was_last = *count == 0;
        if was_last {
            self.0.remove(thing);
        }
        was_last
    }

    /// Everything that somebody wants, in order.
    pub(super) fn wanted(&self) -> impl Iterator<Item = &K> {
        self.0.keys()
    }
}
