//! What was counted, by series, for modes that keep it in this process. Bounded: what left is forgotten after a while, and earlier
//! where there is too much.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ferrule_model::ServicePortName;

use super::Selected;

/// How long an endpoint that left is listed, so that everyone who reads counters sees its last value.
pub(super) const DEPARTED_LISTED: Duration = Duration::from_mins(15);
/// Series that are kept. Beyond, endpoints that left are forgotten, and Service ports that are not counted.
const MAX_KEPT: usize = 100_000;

/// A Service port, or one of its endpoints.
type Series = (ServicePortName, Option<SocketAddr>);

/// Totals by series. Those of a Service port that is counted never go down.
#[derive(Default)]
pub(crate) struct Totals<T> {
    totals: BTreeMap<Series, T>,
    /// Since when endpoints are not in use any more.
    departed: BTreeMap<Series, Instant>,
}

impl<T: Default> Totals<T> {
    /// Adds to a total. One of a new endpoint is left out if there is no room; a Service port's never is.
    pub(crate) fn add(
        &mut self,
        owner: &ServicePortName,
        endpoint: Option<SocketAddr>,
        add: impl FnOnce(&mut T),
    ) {
        let series = (owner.clone(), endpoint);
        if endpoint.is_none() || self.totals.len() < MAX_KEPT || self.totals.contains_key(&series) {
            add(self.totals.entry(series).or_default());
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ServicePortName, Option<SocketAddr>, &T)> {
        self.totals.iter().map(|((owner, endpoint), total)| (owner, *endpoint, total))
    }

    /// Forgets endpoints that left long ago. Where there is too much, those that left just now and those of Service ports that are
    /// not counted; then such Service ports themselves.
    pub(crate) fn forget_departed(&mut self, selected: &Selected, now: Instant) {
        self.note_departed(selected, now);
        let is_full = self.totals.len() >= MAX_KEPT;
        let departed = &self.departed;
        self.totals.retain(|series, _| {
            if series.1.is_none() {
                return true;
            }
            match departed.get(series) {
                Some(since) => !is_full && now.saturating_duration_since(*since) < DEPARTED_LISTED,
                None => !is_full || selected.has(&series.0),
            }
        });
        if self.totals.len() >= MAX_KEPT {
            self.totals.retain(|(owner, _), _| selected.has(owner));
        }
        let totals = &self.totals;
        self.departed.retain(|series, _| totals.contains_key(series));
    }

    fn note_departed(&mut self, selected: &Selected, now: Instant) {
        let mut in_use: BTreeMap<&ServicePortName, BTreeSet<SocketAddr>> = BTreeMap::new();
        let mut departed = BTreeMap::new();
        for series in self.totals.keys() {
            let (owner, Some(endpoint)) = series else { continue };
            // What is not counted is not listed: it goes on where it was if it is counted again.
            if !selected.has(owner) {
                continue;
            }
            let endpoints = in_use.entry(owner).or_insert_with(|| selected.endpoints(owner));
            if !endpoints.contains(endpoint) {
                departed.insert(series.clone(), self.departed.get(series).copied().unwrap_or(now));
            }
        }
        self.departed = departed;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ferrule_testkit::World;

    use super::super::{CountedServices, PlanChange, Selection};
    use super::*;

    const STAYS: &str = "10.1.0.1:80";
    const LEFT: &str = "10.1.0.2:80";

    /// One Service port that is counted, with one endpoint.
    fn selected() -> Arc<Selected> {
        let facts = "service a clusterIP 10.0.0.1 port p 80\nendpoint a 10.1.0.1 node b";
        let mut world = World::of("").expect("no facts");
        let step = world.then(facts).expect("facts");
        let mut selection = Selection::new(CountedServices::All, 10);
        let (plan, deltas, touched) = (&world.plan, &step.deltas, &step.touched.services);
        selection.follow(&PlanChange { plan, deltas, touched, asks: &|_| true });
        selection.selected()
    }

    fn owner(selected: &Selected) -> ServicePortName {
        selected.ports().next().expect("a Service port").clone()
    }

    fn listed(totals: &Totals<u64>) -> Vec<(Option<String>, u64)> {
        totals.iter().map(|(_, endpoint, total)| (endpoint.map(|at| at.to_string()), *total)).collect()
    }

    fn add(totals: &mut Totals<u64>, owner: &ServicePortName, endpoint: Option<&str>) {
        let endpoint = endpoint.map(|endpoint| endpoint.parse().expect("an endpoint"));
        totals.add(owner, endpoint, |total| *total += 1);
    }

    #[test]
    fn an_endpoint_that_left_is_listed_for_a_while() {
        let selected = selected();
        let (mut totals, owner) = (Totals::default(), owner(&selected));
        let stays = selected.endpoints(&owner).first().expect("an endpoint").to_string();
        for endpoint in [Some(stays.as_str()), Some(LEFT), None] {
            add(&mut totals, &owner, endpoint);
        }
        let now = Instant::now();
        totals.forget_departed(&selected, now);
        totals.forget_departed(&selected, now + DEPARTED_LISTED.saturating_sub(Duration::from_secs(1)));
        assert_eq!(listed(&totals).len(), 3);
        totals.forget_departed(&selected, now + DEPARTED_LISTED);
        assert_eq!(listed(&totals), [(None, 1), (Some(stays), 1)]);
        assert!(totals.departed.is_empty());
    }

    #[test]
    fn a_service_ports_total_grows_though_there_is_no_room() {
        let selected = selected();
        let (mut totals, owner) = (Totals::default(), owner(&selected));
        let known: SocketAddr = STAYS.parse().expect("an endpoint");
        add(&mut totals, &owner, Some(STAYS));
        for number in 0..MAX_KEPT {
            let [_, high, middle, low] = u32::try_from(number).expect("a small number").to_be_bytes();
            add(&mut totals, &owner, Some(&format!("11.{high}.{middle}.{low}:80")));
        }
        assert_eq!(totals.totals.len(), MAX_KEPT);
        for endpoint in [Some(STAYS), Some("12.0.0.1:80"), None] {
            add(&mut totals, &owner, endpoint);
        }
        let of = |totals: &Totals<u64>, endpoint| totals.totals.get(&(owner.clone(), endpoint)).copied();
        assert_eq!((of(&totals, Some(known)), of(&totals, None)), (Some(2), Some(1)));
        totals.forget_departed(&selected, Instant::now());
        assert!(totals.totals.len() <= 2, "endpoints that left make room");
        assert_eq!(of(&totals, None), Some(1));
    }
}
