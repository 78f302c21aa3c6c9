//! Reads one family's counters, and keeps them true: what is gone is carried on, what is missing is put back.
//!
//! Works on a netlink handle of its own, on the thread that asks. What counted so far is in the kernel: elements in use, and
//! `carried` for those that were removed. Only what another program destroyed is known here alone, as a base that is added.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::nft::{CommitError, CountedElement, Element, Family, KeyBytes, NftClient, Transaction};
use ferrule_kernel::port::{NftReader as _, NftTables as _};
use ferrule_model::ServicePortName;

use super::layout::{self, CounterSet, EndpointKey};
use super::table::{Entry, Present, locked};
use super::tag::Tag;
use super::totals::DEPARTED_LISTED;
use super::{Count, Selected};

/// How long after a frontend went packets to it may still be under way.
const FOLD_DELAY: Duration = Duration::from_secs(1);
/// How often sets and chains are compared with what was written, if anything was committed since.
const CHECK_INTERVAL: Duration = Duration::from_mins(1);

/// The sets that hold what was counted, in the order in which they are read: endpoints before what lets them be made. The loop adds
/// frontends meanwhile, and an endpoint without a frontend is taken for one of no one.
const COUNTED: [CounterSet; 4] =
    [CounterSet::Endpoints, CounterSet::Services, CounterSet::NodePorts, CounterSet::Carried];

/// Where a counter is.
pub(super) type Place = (CounterSet, KeyBytes);
/// A series: a Service port, or one of its endpoints.
type Series = (Tag, Option<SocketAddr>);

/// Why counters could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CounterError {
    /// Reading failed.
    #[error("reading the table ferrule-counters")]
    Read(#[from] NetlinkError),
    /// Writing failed.
    #[error("writing the table ferrule-counters")]
    Commit(#[from] CommitError),
}

/// Reads one family's counters.
pub(super) struct Reader {
    client: NftClient,
    family: Family,
    limits: Limits,
    seen: BTreeMap<Place, Seen>,
    /// Since when endpoints are not in use any more.
    departed: BTreeMap<Series, Instant>,
    /// The generation at which sets and chains were compared last, and when.
    checked: Option<(u32, Instant)>,
}

/// How much there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Elements of `endpoints`.
    pub endpoints: u32,
    /// Elements of `carried`, before those of Services that are not counted go.
    pub carried: usize,
}

/// A counter as it was read last.
#[derive(Clone, Debug, Default)]
struct Seen {
    connections: u64,
    /// What was counted before another program removed or reset it.
    base: u64,
    comment: String,
    is_in_kernel: bool,
}

impl Seen {
    fn total(&self) -> u64 {
        self.base.saturating_add(self.connections)
    }
}

impl Reader {
    pub(super) fn new(client: NftClient, family: Family, limits: Limits) -> Self {
        let (seen, departed) = (BTreeMap::new(), BTreeMap::new());
        Self { client, family, limits, seen, departed, checked: None }
    }

    /// Takes over the table that an earlier run left, or makes one. What it counts for no one yet is noted as retired.
    pub(super) fn open(&mut self, present: &mut Present) -> Result<(), CounterError> {
        self.observe()?;
        if self.is_intact()? {
            present.addresses =
                self.client.elements(&CounterSet::NodeAddresses.name())?.unwrap_or_default().elements;
        } else {
            self.rebuild(present)?;
        }
        let retired = Some(Instant::now());
        let mut of_others = Vec::new();
        for (place, seen) in &self.seen {
            if matches!(place.0, CounterSet::Services | CounterSet::NodePorts) {
                let tag = Tag::from_comment(&seen.comment).0;
                let found = Entry { tag: tag.clone(), retired };
                if present.entries.entry(place.clone()).or_insert(found).tag != tag {
                    of_others.push(place.clone());
                }
            }
        }
        let wanted: Vec<_> = of_others
            .iter()
            .filter_map(|place| Some((place.clone(), present.entries.get(place)?.clone())))
            .collect();
        self.fold(present, &of_others)?;
        present.entries.extend(wanted);
        self.restore(present)
    }

    /// What was counted. Puts right what is wrong with the table, as far as it can.
    pub(super) fn read(
        &mut self,
        present: &Mutex<Present>,
        selected: &Selected,
    ) -> Result<Vec<Count>, CounterError> {
        self.observe()?;
        let owners: BTreeMap<Tag, &ServicePortName> =
            selected.ports().map(|owner| (Tag::of(owner), owner)).collect();
        let is_damaged = self.is_damaged(present)?;
        {
            let mut present = locked(present);
            if is_damaged {
                self.rebuild(&mut present)?;
            }
            let due = |entry: &Entry| entry.retired.is_some_and(|since| since.elapsed() >= FOLD_DELAY);
            let retired = present.entries.iter().filter(|(_, entry)| due(entry));
            let retired: Vec<Place> = retired.map(|(place, _)| place.clone()).collect();
            self.fold(&mut present, &retired)?;
            self.restore(&present)?;
        }
        self.forget_departed(&owners, selected)?;
        Ok(self.counts(&owners))
    }

    /// Carries on what these elements counted, and removes them: now, since something else is to be counted in their place.
    pub(super) fn fold_now(&mut self, present: &mut Present, places: &[Place]) -> Result<(), CounterError> {
        self.observe()?;
        self.fold(present, places)
    }

    /// Reads all counters, and notes what became of those that were there.
    fn observe(&mut self) -> Result<(), CounterError> {
        for seen in self.seen.values_mut() {
            seen.is_in_kernel = false;
        }
        for set in COUNTED {
            for element in self.client.counted_elements(&set.name())?.unwrap_or_default() {
                let CountedElement { key, comment, packets, .. } = element;
                let seen = self.seen.entry((set, key)).or_default();
                if packets < seen.connections {
                    seen.base = seen.total();
                }
                seen.connections = packets;
                // One that another program put in place of ours has none.
                if let Some(comment) = comment {
                    seen.comment = comment;
                }
                seen.is_in_kernel = true;
            }
        }
        for seen in self.seen.values_mut().filter(|seen| !seen.is_in_kernel) {
            seen.base = seen.total();
            seen.connections = 0;
        }
        Ok(())
    }

    /// Whether another program damaged sets, chains or addresses. Compared at most once a minute, and if anything was committed.
    fn is_damaged(&mut self, present: &Mutex<Present>) -> Result<bool, CounterError> {
        let generation = self.client.generation()?;
        let is_fresh = |(at, when): (u32, Instant)| at == generation || when.elapsed() < CHECK_INTERVAL;
        if self.checked.is_some_and(is_fresh) && self.client.has_set(&CounterSet::Services.name())? {
            return Ok(false);
        }
        let addresses = locked(present).addresses.clone();
        let is_intact = self.is_intact()? && self.has_addresses(&addresses)?;
        self.checked = Some((generation, Instant::now()));
        Ok(!is_intact)
    }

    fn is_intact(&mut self) -> Result<bool, CounterError> {
        let Some(table) = self.client.table()? else { return Ok(false) };
        if table.dormant || table.owner.is_some() || table.has_other_flags {
            return Ok(false);
        }
        let mut sets: Vec<_> = self.client.sets()?.into_iter().map(|seen| seen.object).collect();
        sets.sort_by_key(|set| set.as_ref().map(|set| set.name.clone()));
        let mut wanted: Vec<_> =
            layout::sets(self.family, self.limits.endpoints).into_iter().map(Some).collect();
        wanted.sort_by_key(|set| set.as_ref().map(|set| set.name.clone()));
        let chains: BTreeMap<_, _> =
            self.client.chains()?.into_iter().map(|seen| (seen.name, seen.object)).collect();
        let wanted_chains = layout::chains(self.family).into_iter();
        let wanted_chains: BTreeMap<_, _> =
            wanted_chains.map(|chain| (chain.name.clone(), Some(chain))).collect();
        Ok(sets == wanted && chains == wanted_chains)
    }

    fn has_addresses(&mut self, wanted: &[Element]) -> Result<bool, CounterError> {
        let seen = self.client.elements(&CounterSet::NodeAddresses.name())?.unwrap_or_default();
        Ok(layout::same_keys(&seen.elements, wanted))
    }

    /// Rewrites the table; all that was counted is carried on.
    fn rebuild(&mut self, present: &mut Present) -> Result<(), CounterError> {
        let mut transaction = layout::create(self.family, self.limits.endpoints);
        transaction.add_elements(present.addresses.iter().cloned());
        let carried: Vec<CountedElement> = self
            .totals()
            .into_iter()
            .filter(|(_, connections)| *connections > 0)
            .map(|((tag, endpoint), connections)| {
                let comment = tag.comment(endpoint);
                layout::counted(CounterSet::Carried, tag.key(endpoint), comment, connections)
            })
            .collect();
        transaction.add_counted(carried.iter().cloned());
        transaction.add_counted(present.elements());
        self.client.commit(&transaction)?;
        self.seen = carried.into_iter().map(in_kernel).collect();
        self.seen.extend(present.elements().map(in_kernel));
        Ok(())
    }

    /// Puts elements back that another program removed.
    fn restore(&mut self, present: &Present) -> Result<(), CounterError> {
        let is_missing = |element: &CountedElement| {
            let seen = COUNTED.into_iter().find(|set| set.name() == element.set);
            let seen = seen.and_then(|set| self.seen.get(&(set, element.key.clone())));
            !seen.is_some_and(|seen| seen.is_in_kernel)
        };
        let missing: Vec<CountedElement> = present.elements().filter(is_missing).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let mut transaction = Transaction::new();
        transaction.add_counted(missing);
        self.client.commit(&transaction)?;
        Ok(())
    }

    /// Moves what these elements counted, and endpoints by way of them, to `carried`.
    fn fold(&mut self, present: &mut Present, places: &[Place]) -> Result<(), CounterError> {
        if places.is_empty() {
            return Ok(());
        }
        let gone: BTreeSet<&Place> = places.iter().collect();
        let family = self.family;
        let goes = |place: &Place| match place {
            (CounterSet::Endpoints, key) => {
                self.frontend_of(key, family).is_some_and(|at| gone.contains(&at))
            }
            place => gone.contains(place),
        };
        let leaving: Vec<Place> = self.seen.keys().filter(|place| goes(place)).cloned().collect();
        let mut amounts: BTreeMap<Series, u64> = BTreeMap::new();
        for place in &leaving {
            if let (Some(series), Some(seen)) = (self.series_of(place), self.seen.get(place)) {
                *amounts.entry(series).or_default() += seen.total();
            }
        }
        amounts.retain(|_, connections| *connections > 0);
        let mut transaction = Transaction::new();
        self.delete(&leaving, &mut transaction);
        let carried = self.carry(amounts, &mut transaction);
        if !transaction.is_empty() {
            self.client.commit(&transaction)?;
        }
        for place in leaving.iter().chain(places) {
            self.seen.remove(place);
            present.entries.remove(place);
        }
        self.seen.extend(carried.into_iter().map(in_kernel));
        Ok(())
    }

    fn delete(&self, places: &[Place], transaction: &mut Transaction) {
        for place in places {
            if self.seen.get(place).is_some_and(|seen| seen.is_in_kernel) {
                transaction.delete_element(&place.0.name(), place.1.clone());
            }
        }
    }

    /// Adds amounts to what is carried.
    fn carry(&self, amounts: BTreeMap<Series, u64>, transaction: &mut Transaction) -> Vec<CountedElement> {
        let mut carried = Vec::new();
        for ((tag, endpoint), connections) in amounts {
            let place = (CounterSet::Carried, tag.key(endpoint));
            let before = self.seen.get(&place).map_or(0, Seen::total);
            self.delete(std::slice::from_ref(&place), transaction);
            let total = before.saturating_add(connections);
            carried.push(layout::counted(CounterSet::Carried, place.1, tag.comment(endpoint), total));
        }
        transaction.add_counted(carried.iter().cloned());
        carried
    }

    /// Removes endpoints that left long ago, endpoints of no one, and what is carried for Services that are gone if it is too much.
    fn forget_departed(
        &mut self,
        owners: &BTreeMap<Tag, &ServicePortName>,
        selected: &Selected,
    ) -> Result<(), CounterError> {
        let expired = self.expired(owners, selected);
        let carried = |place: &&Place| place.0 == CounterSet::Carried;
        let is_full = self.seen.keys().filter(carried).count() > self.limits.carried;
        let mut going = Vec::new();
        for place in self.seen.keys() {
            let is_gone = match self.series_of(place) {
                None => true,
                Some((tag, _)) if !owners.contains_key(&tag) => is_full && place.0 == CounterSet::Carried,
                Some(series) => expired.contains(&series),
            };
            if is_gone {
                going.push(place.clone());
            }
        }
        if going.is_empty() {
            return Ok(());
        }
        let mut transaction = Transaction::new();
        self.delete(&going, &mut transaction);
        if !transaction.is_empty() {
            self.client.commit(&transaction)?;
        }
        for place in &going {
            self.seen.remove(place);
        }
        self.departed.retain(|series, _| !expired.contains(series));
        Ok(())
    }

    /// The endpoints that are no longer in use and were listed long enough.
    fn expired(&mut self, owners: &BTreeMap<Tag, &ServicePortName>, selected: &Selected) -> BTreeSet<Series> {
        let mut in_use: BTreeMap<Tag, BTreeSet<SocketAddr>> = BTreeMap::new();
        let mut departed = BTreeMap::new();
        let (mut elements, now) = (0_usize, Instant::now());
        for place in self.seen.keys() {
            elements += usize::from(place.0 == CounterSet::Endpoints);
            let Some((tag, Some(endpoint))) = self.series_of(place) else { continue };
            let Some(owner) = owners.get(&tag) else { continue };
            let endpoints = in_use.entry(tag.clone()).or_insert_with(|| selected.endpoints(owner));
            if !endpoints.contains(&endpoint) {
                let series = (tag, Some(endpoint));
                let since = self.departed.get(&series).copied().unwrap_or(now);
                departed.insert(series, since);
            }
        }
        self.departed = departed;
        // Where room gets short, new endpoints matter more.
        let is_short = elements >= self.limits.endpoints as usize / 4 * 3;
        let is_expired = |since: &Instant| is_short || since.elapsed() >= DEPARTED_LISTED;
        self.departed
            .iter()
            .filter(|(_, since)| is_expired(since))
            .map(|(series, _)| series.clone())
            .collect()
    }

    fn counts(&self, owners: &BTreeMap<Tag, &ServicePortName>) -> Vec<Count> {
        let count = |((tag, endpoint), connections): (Series, u64)| {
            let owner = ServicePortName::clone(owners.get(&tag)?);
            Some(Count { owner, endpoint, connections, traffic: None })
        };
        self.totals().into_iter().filter_map(count).collect()
    }

    fn totals(&self) -> BTreeMap<Series, u64> {
        let mut totals = BTreeMap::new();
        for (place, seen) in &self.seen {
            if let Some(series) = self.series_of(place) {
                let total: &mut u64 = totals.entry(series).or_default();
                *total = total.saturating_add(seen.total());
            }
        }
        totals
    }

    fn series_of(&self, place: &Place) -> Option<Series> {
        let of = |place: &Place| Some(Tag::from_comment(&self.seen.get(place)?.comment));
        match place {
            (CounterSet::Services | CounterSet::NodePorts | CounterSet::Carried, _) => of(place),
            (CounterSet::Endpoints, key) => {
                let (tag, _) = of(&self.frontend_of(key, self.family)?)?;
                Some((tag, Some(EndpointKey::parse(key, self.family)?.endpoint)))
            }
            (CounterSet::NodeAddresses, _) => None,
        }
    }

    /// The element that let a packet count for an endpoint, as the rules look for it.
    fn frontend_of(&self, key: &KeyBytes, family: Family) -> Option<Place> {
        let parsed = EndpointKey::parse(key, family)?;
        let places = [(CounterSet::Services, parsed.service), (CounterSet::NodePorts, parsed.node_port)];
        places.into_iter().find(|place| self.seen.contains_key(place))
    }
}

/// An element that was just written.
fn in_kernel(element: CountedElement) -> (Place, Seen) {
    let CountedElement { set, key, comment, packets, .. } = element;
    let set = COUNTED.into_iter().find(|known| known.name() == set).unwrap_or(CounterSet::Carried);
    let comment = comment.unwrap_or_default();
    ((set, key), Seen { connections: packets, base: 0, comment, is_in_kernel: true })
}
