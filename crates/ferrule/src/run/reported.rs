//! Remembers which diagnostics were reported for which object, so that each is reported once while it stays true.

use std::collections::{BTreeMap, BTreeSet};

use ferrule_model::{Change, Diagnostic, ObjectKind};

/// Beyond this many objects, diagnostics may be reported again.
const MAX_OBJECTS: usize = 10_000;

/// Diagnostics that were reported.
#[derive(Debug, Default)]
pub(super) struct ReportedDiagnostics {
    by_object: BTreeMap<Object, BTreeSet<Diagnostic>>,
}

/// An object's kind and name.
type Object = (ObjectKind, String);

impl ReportedDiagnostics {
    pub(super) fn is_empty(&self) -> bool {
        self.by_object.is_empty()
    }

    /// Everything that was reported and is still true.
    pub(super) fn current(&self) -> impl Iterator<Item = &Diagnostic> {
        self.by_object.values().flatten()
    }

    /// The diagnostics that are new, after these objects were checked again. What is no longer true of them is forgotten, and
    /// reported again if it comes back.
    pub(super) fn newly_seen(
        &mut self,
        checked: impl IntoIterator<Item = Object>,
        diagnostics: Vec<Diagnostic>,
    ) -> Vec<Diagnostic> {
        let mut by_object: BTreeMap<_, BTreeSet<Diagnostic>> = BTreeMap::new();
        for diagnostic in diagnostics {
            let object = (diagnostic.kind, diagnostic.object.clone());
            by_object.entry(object).or_default().insert(diagnostic);
        }
        if self.by_object.len() > MAX_OBJECTS {
            self.by_object.clear();
        }
        if !self.by_object.is_empty() {
            for object in checked.into_iter().filter(|object| !by_object.contains_key(object)) {
                self.by_object.remove(&object);
            }
        }
        let mut new = Vec::new();
        for (object, found) in by_object {
            let before = self.by_object.entry(object).or_default();
            new.extend(found.difference(before).cloned());
            *before = found;
        }
        new
    }
}

/// The object a change is about, as reports name it; the only Node is our own.
pub(super) fn object_of(change: &Change, own_node: &str) -> (ObjectKind, String) {
    let name = match change {
        Change::Service(name, _) | Change::Endpoints(name, ..) => name.to_string(),
        Change::Slice(name, ..) => name.to_string(),
        Change::Node(_) => own_node.to_owned(),
        Change::ServiceCidr(name, _) => name.clone(),
    };
    (kind_of(change), name)
}

/// The kind of object that a change is about.
pub(super) fn kind_of(change: &Change) -> ObjectKind {
    match change {
        Change::Service(..) => ObjectKind::Service,
        Change::Slice(..) => ObjectKind::EndpointSlice,
        Change::Endpoints(..) => ObjectKind::Endpoints,
        Change::Node(_) => ObjectKind::Node,
        Change::ServiceCidr(..) => ObjectKind::ServiceCidr,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_model::Problem;

    fn complaint(object: &str, port: i64) -> Diagnostic {
        Diagnostic {
            kind: ObjectKind::Service,
            object: object.to_owned(),
            field: "spec.ports[0].port".to_owned(),
            problem: Problem::NotAPort(port),
        }
    }

    #[test]
    fn what_stays_true_is_reported_once() {
        let mut reported = ReportedDiagnostics::default();
        let changed = || [(ObjectKind::Service, "a/b".to_owned())];
        assert_eq!(reported.newly_seen([], vec![complaint("a/b", 0), complaint("a/c", 0)]).len(), 2);
        assert_eq!(reported.newly_seen(changed(), vec![complaint("a/b", 0)]), []);
        assert_eq!(
            reported.newly_seen(changed(), vec![complaint("a/b", 70_000)]),
            [complaint("a/b", 70_000)]
        );
        assert_eq!(reported.newly_seen(changed(), vec![]), []);
        assert_eq!(
            reported.newly_seen(changed(), vec![complaint("a/b", 70_000)]).len(),
            1,
            "it was well in between"
        );
    }
}
