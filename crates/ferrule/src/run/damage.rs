//! What other programs changed since the last repair, as one line can say it.

use ferrule_backends::Drift;

/// So many changes are named, and so many programs; further ones are counted.
const MAX_NAMED: usize = 3;

/// Several drifts of one family, until they are repaired together.
#[derive(Debug)]
pub(super) struct Damage {
    first: Drift,
    /// Those that say something new.
    later: Vec<Drift>,
    unnamed: usize,
}

impl Damage {
    pub(super) fn new(drift: Drift) -> Self {
        Self { first: drift, later: Vec::new(), unnamed: 0 }
    }

    pub(super) fn add(&mut self, drift: Drift) {
        if self.named().any(|known| *known == drift) {
            return;
        }
        if self.later.len() + 1 < MAX_NAMED {
            self.later.push(drift);
        } else {
            self.unnamed += 1;
        }
    }

    /// All of it as one drift.
    pub(super) fn into_drift(self) -> Drift {
        let unnamed = (self.unnamed > 0).then(|| format!("and {} more changes", self.unnamed));
        let mut what: Vec<&str> = self.named().map(|drift| drift.what.as_str()).collect();
        what.extend(unnamed.as_deref());
        what.dedup();
        let what = what.join("; ");
        let mut programs: Vec<&str> = Vec::new();
        for by in self.named().filter_map(|drift| drift.by.as_deref()) {
            if !programs.contains(&by) {
                programs.push(by);
            }
        }
        let by = (!programs.is_empty()).then(|| programs.join(", "));
        Drift { family: self.first.family, what, by }
    }

    fn named(&self) -> impl Iterator<Item = &Drift> {
        std::iter::once(&self.first).chain(&self.later)
    }
}

#[cfg(test)]
mod tests {
    use ferrule_model::IpFamily;

    use super::*;

    fn drift(what: &str, by: Option<&str>) -> Drift {
        Drift { family: IpFamily::V4, what: what.to_owned(), by: by.map(str::to_owned) }
    }

    fn merged(drifts: &[(&str, Option<&str>)]) -> (String, Option<String>) {
        let mut drifts = drifts.iter().map(|(what, by)| drift(what, *by));
        let mut damage = Damage::new(drifts.next().expect("a drift"));
        drifts.for_each(|drift| damage.add(drift));
        let Drift { what, by, .. } = damage.into_drift();
        (what, by)
    }

    #[test]
    fn each_change_and_each_program_is_named_once() {
        let one = ("chain A removed", Some("nft (process 1)"));
        let other = ("chain B removed", Some("iptables (process 2)"));
        let by = |by: &str| Some(by.to_owned());
        assert_eq!(merged(&[one]), ("chain A removed".to_owned(), by("nft (process 1)")));
        assert_eq!(
            merged(&[one, other, one]),
            ("chain A removed; chain B removed".to_owned(), by("nft (process 1), iptables (process 2)"))
        );
        assert_eq!(
            merged(&[one, ("chain A removed", None)]),
            ("chain A removed".to_owned(), by("nft (process 1)"))
        );
        assert_eq!(merged(&[("all tables emptied", None)]), ("all tables emptied".to_owned(), None));
    }

    #[test]
    fn further_changes_are_counted() {
        let changes = ["a", "b", "c", "d", "e"].map(|what| (what, Some("x")));
        assert_eq!(merged(&changes), ("a; b; c; and 2 more changes".to_owned(), Some("x".to_owned())));
    }
}
