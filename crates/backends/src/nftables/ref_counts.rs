//! Reference counts, for objects that several frontends or pools share.

use std::collections::BTreeMap;

/// A reference count for each key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RefCounts<K>(BTreeMap<K, u32>);

impl<K> Default for RefCounts<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Clone> RefCounts<K> {
    /// Adds a reference; returns whether it is the first.
    pub(super) fn acquire(&mut self, key: K) -> bool {
        let count = self.0.entry(key).or_default();
        *count += 1;
        *count == 1
    }

    /// Drops a reference; returns whether it was the last.
    pub(super) fn release(&mut self, key: &K) -> bool {
        let Some(count) = self.0.get_mut(key) else { return false };
        *count -= 1;
        let was_last = *count == 0;
        if was_last {
            self.0.remove(key);
        }
        was_last
    }

    /// Every key with a reference, in order.
    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.keys()
    }
}
