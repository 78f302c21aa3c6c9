//! Detects that a list removes most of what was known.
//!
//! The removal is carried out all the same: the source is the authority. The warning is for the operator who later
//! looks for the cause of an outage and must find when it happened, and which response caused it.

use std::fmt;

use ferrule_model::ObjectKind;

/// In smaller clusters, half of the objects come and go in ordinary operation.
const MIN_KNOWN: usize = 20;

/// A complete list that lacks more than half of the objects known before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MassRemoval {
    /// The kind the list is of.
    pub kind: ObjectKind,
    /// Number of known objects the list lacks.
    pub removed: usize,
    /// Number of objects known before the list.
    pub known: usize,
}

impl MassRemoval {
    pub(crate) fn detect(kind: ObjectKind, removed: usize, known: usize) -> Option<Self> {
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
    fn only_more_than_half_of_at_least_twenty_objects_is_a_mass_removal() {
        let is_mass = |removed, known| MassRemoval::detect(ObjectKind::Service, removed, known).is_some();
        assert!(is_mass(11, 20) && is_mass(20, 20) && is_mass(5_000, 9_999));
        assert!(!is_mass(10, 20) && !is_mass(19, 19) && !is_mass(0, 10_000) && !is_mass(0, 0));
    }
}
