//! What was already said about which object, so that nothing is said twice while it stays true.

use std::collections::{BTreeMap, BTreeSet};

use ferrule_model::{Diagnostic, ObjectKind};

/// More objects than this are not kept book of; beyond it, things may be said again.
const MOST_OBJECTS: usize = 10_000;

/// What was said.
#[derive(Debug, Default)]
pub struct Told {
    by_object: BTreeMap<Object, BTreeSet<Diagnostic>>,
}

/// An object's kind and name.
type Object = (ObjectKind, String);

impl Told {
    /// What of this is new, after these objects were looked at again: what is no longer true of them can be said again later.
    pub fn news(
        &mut self,
        looked_at: impl IntoIterator<Item = Object>,
        diagnostics: Vec<Diagnostic>,
    ) -> Vec<Diagnostic> {
        let mut by_object: BTreeMap<_, BTreeSet<Diagnostic>> = BTreeMap::new();
        for diagnostic in diagnostics {
            let object = (diagnostic.kind, diagnostic.object.clone());
            by_object.entry(object).or_default().insert(diagnostic);
        }
        if self.by_object.len() > MOST_OBJECTS {
            self.by_object.clear();
        }
        if !self.by_object.is_empty() {
            for object in looked_at.into_iter().filter(|object| !by_object.contains_key(object)) {
                self.by_object.remove(&object);
            }
        }
        let mut news = Vec::new();
        for (object, said) in by_object {
            let before = self.by_object.entry(object).or_default();
            news.extend(said.difference(before).cloned());
            *before = said;
        }
        news
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
    fn what_stays_true_is_said_once() {
        let mut told = Told::default();
        let changed = || [(ObjectKind::Service, "a/b".to_owned())];
        assert_eq!(told.news([], vec![complaint("a/b", 0), complaint("a/c", 0)]).len(), 2);
        assert_eq!(told.news(changed(), vec![complaint("a/b", 0)]), []);
        assert_eq!(told.news(changed(), vec![complaint("a/b", 70_000)]), [complaint("a/b", 70_000)]);
        assert_eq!(told.news(changed(), vec![]), []);
        assert_eq!(told.news(changed(), vec![complaint("a/b", 70_000)]).len(), 1, "it was well in between");
    }
}
