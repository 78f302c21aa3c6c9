//! Most of what is known is about to vanish at once.
//!
//! It does vanish: whoever says so is the source of truth. But an operator who looks for the reason of an outage must find
//! when it was said, and by which answer.

use std::fmt;

use ferrule_model::ObjectKind;

/// With fewer objects, half of them come and go without meaning anything.
const MIN_KNOWN: usize = 20;

/// A list that lacks more than half of the objects that were known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MassRemoval {
    /// The kind of the objects.
    pub kind: ObjectKind,
    /// How many are gone.
    pub removed: usize,
    /// How many were known.
    pub known: usize,
}

impl MassRemoval {
    /// Whether so many of so many are worth a warning.
    pub(crate) fn of(kind: ObjectKind, removed: usize, known: usize) -> Option<Self> {
        (known >= MIN_KNOWN && removed > known / 2).then_some(Self { kind, removed, known })
    }
}

impl fmt::Display for MassRemoval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} objects of kind {}", self.removed, self.known, self.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_half_of_many_is_a_mass() {
        let is_mass = |removed, known| MassRemoval::of(ObjectKind::Service, removed, known).is_some();
        assert!(is_mass(11, 20) && is_mass(20, 20) && is_mass(5_000, 9_999));
        assert!(!is_mass(10, 20) && !is_mass(19, 19) && !is_mass(0, 10_000) && !is_mass(0, 0));
    }
}
