//! Counters in a table of nf_tables beside the mode's rules: see [`super::layout`].
//!
//! The loop writes what is counted ([`FamilyTable::follow`]), through a handle of its own; reading has another one
//! ([`super::reader`]). They share [`Present`], which is locked for as long as one small transaction takes.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ferrule_kernel::nft::{CountedElement, Element, NftClient, Transaction};
use ferrule_kernel::port::{NftReader as _, NftTables as _};
use ferrule_model::{IpFamily, PerFamily, with_causes};

use super::layout::{self, CounterSet};
use super::reader::{CounterError, Limits, Place, Reader};
use super::shared::ENDPOINTS_PER_PORT;
use super::tag::Tag;
use super::{ConnectionCounters, Count, Selected, SelectionChange};
use crate::family::table_family;
use crate::{BackendError, Note, Severity};

/// Counters in a table of nf_tables, for modes whose rules redirect connections by conntrack.
pub struct TableCounters {
    families: PerFamily<FamilyTable>,
}

/// One family's table.
struct FamilyTable {
    family: IpFamily,
    writer: Mutex<NftClient>,
    /// Locked before [`Self::present`].
    reader: Mutex<Reader>,
    present: Mutex<Present>,
}

/// What was written.
#[derive(Default)]
pub(super) struct Present {
    pub entries: BTreeMap<Place, Entry>,
    pub addresses: Vec<Element>,
    is_open: bool,
    /// Whether the last change could not be written.
    is_behind: bool,
}

/// An element that counts for a Service port.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub tag: Tag,
    /// Since when it is not wanted any more.
    pub retired: Option<Instant>,
}

impl Present {
    /// What is to be in the kernel, beginning with nothing counted.
    pub(super) fn elements(&self) -> impl Iterator<Item = CountedElement> {
        let wanted = self.entries.iter().filter(|(_, entry)| entry.retired.is_none());
        wanted.map(|((set, key), entry)| layout::counted(*set, key.clone(), entry.tag.comment(None), 0))
    }
}

impl TableCounters {
    /// Opens handles for these families; the tables are made when something is to be counted.
    pub fn open(families: &[IpFamily], limit: usize) -> Result<Self, BackendError> {
        let mut opened = PerFamily::default();
        for family in families {
            opened.set(*family, FamilyTable::open(*family, limit)?);
        }
        Ok(Self { families: opened })
    }

    /// Removes the tables that an earlier run left; returns how many there were.
    pub fn remove() -> Result<usize, BackendError> {
        Self::remove_others(&[])
    }

    /// Removes the tables that an earlier run left, but for those of these families; returns how many there were.
    pub fn remove_others(used: &[IpFamily]) -> Result<usize, BackendError> {
        let mut removed = 0;
        for family in IpFamily::BOTH.into_iter().filter(|family| !used.contains(family)) {
            removed += usize::from(remove(family).map_err(|error| failed(family, error))?);
        }
        Ok(removed)
    }
}

impl ConnectionCounters for TableCounters {
    fn follow(&self, change: &SelectionChange) -> Vec<Note> {
        self.families.iter().filter_map(|(_, table)| table.follow(change)).collect()
    }

    fn read(&self, selected: &Selected) -> Result<Vec<Count>, BackendError> {
        let mut counts = Vec::new();
        for (family, table) in self.families.iter() {
            counts.extend(table.read(selected).map_err(|error| failed(family, error))?);
        }
        Ok(counts)
    }
}

impl FamilyTable {
    fn open(family: IpFamily, limit: usize) -> Result<Self, BackendError> {
        let client = || {
            let client = NftClient::open_table(table_family(family), layout::TABLE);
            client.map_err(|error| failed(family, error.into()))
        };
        let endpoints = limit.saturating_mul(ENDPOINTS_PER_PORT);
        let limits = Limits {
            endpoints: u32::try_from(endpoints).unwrap_or(u32::MAX),
            carried: limit.saturating_add(endpoints),
        };
        let reader = Mutex::new(Reader::new(client()?, table_family(family), limits));
        Ok(Self { family, writer: Mutex::new(client()?), reader, present: Mutex::default() })
    }

    fn follow(&self, change: &SelectionChange) -> Option<Note> {
        let result = self.write(change);
        let mut present = locked(&self.present);
        let was_behind = std::mem::replace(&mut present.is_behind, result.is_err());
        let error = result.err().filter(|_| !was_behind)?;
        let message =
            "Connections cannot be counted, Services are not affected; does the kernel have nf_tables?";
        let note = Note::new(Severity::Warning, message).in_family(self.family);
        Some(note.with_detail(with_causes(&error)))
    }

    /// Whatever fails, what is wanted is noted: a later reading puts it right.
    fn write(&self, change: &SelectionChange) -> Result<(), CounterError> {
        if change.frontends.is_empty() && change.addresses.get(self.family).is_none() {
            return Ok(());
        }
        let prepared = self.open_table().and_then(|()| self.replace_owners(change));
        let mut present = locked(&self.present);
        let mut transaction = Transaction::new();
        if let Some(addresses) = change.addresses.get(self.family) {
            let addresses = node_addresses(self.family, addresses.iter().copied());
            // A start that finds what it wants commits nothing: the mode's own stamp stays good.
            if !layout::same_keys(&addresses, &present.addresses) {
                transaction.flush_set(CounterSet::NodeAddresses.name());
                transaction.add_elements(addresses.iter().cloned());
                present.addresses = addresses;
            }
        }
        transaction.add_counted(note_changes(&mut present, self.family, change));
        prepared?;
        if transaction.is_empty() {
            return Ok(());
        }
        locked(&self.writer).commit(&transaction)?;
        Ok(())
    }

    fn read(&self, selected: &Selected) -> Result<Vec<Count>, CounterError> {
        self.open_table()?;
        locked(&self.reader).read(&self.present, selected)
    }

    /// Takes over the table of an earlier run, or makes one.
    fn open_table(&self) -> Result<(), CounterError> {
        if locked(&self.present).is_open {
            return Ok(());
        }
        let mut reader = locked(&self.reader);
        let mut present = locked(&self.present);
        if !present.is_open {
            reader.open(&mut present)?;
            present.is_open = true;
        }
        Ok(())
    }

    /// Where something else is to be counted in the same place, what was counted so far is carried on first. Rare: an address or
    /// node port that goes from one Service to another within a moment. The loop reads the kernel here and when the table is opened, and
    /// waits for a reading that is under way; otherwise it waits no longer than a commit takes.
    fn replace_owners(&self, change: &SelectionChange) -> Result<(), CounterError> {
        let replaced: Vec<Place> = {
            let present = locked(&self.present);
            let of_other = |(place, tag): &(Place, Option<Tag>)| {
                let entry = present.entries.get(place);
                tag.as_ref().is_some_and(|tag| entry.is_some_and(|entry| entry.tag != *tag))
            };
            changes_of(self.family, change).filter(of_other).map(|(place, _)| place).collect()
        };
        if replaced.is_empty() {
            return Ok(());
        }
        let mut reader = locked(&self.reader);
        reader.fold_now(&mut locked(&self.present), &replaced)
    }
}

/// Notes what is wanted now; returns the elements to be added.
fn note_changes(present: &mut Present, family: IpFamily, change: &SelectionChange) -> Vec<CountedElement> {
    let mut added = Vec::new();
    for (place, tag) in changes_of(family, change) {
        match (present.entries.get_mut(&place), tag) {
            (Some(entry), Some(tag)) => *entry = Entry { tag, retired: None },
            (Some(entry), None) => entry.retired = Some(Instant::now()),
            (None, Some(tag)) => {
                added.push(layout::counted(place.0, place.1.clone(), tag.comment(None), 0));
                present.entries.insert(place, Entry { tag, retired: None });
            }
            (None, None) => {}
        }
    }
    added
}

fn changes_of(family: IpFamily, change: &SelectionChange) -> impl Iterator<Item = (Place, Option<Tag>)> {
    let ours = change.frontends.iter().filter(move |((of, _), _)| *of == family);
    ours.filter_map(|((_, key), owner)| Some((layout::place_of(key)?, owner.as_ref().map(Tag::of))))
}

/// The node's addresses, loopback among them: NodePorts may be served there.
fn node_addresses(family: IpFamily, addresses: impl Iterator<Item = IpAddr>) -> Vec<Element> {
    let loopback = match family {
        IpFamily::V4 => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpFamily::V6 => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    let all: std::collections::BTreeSet<IpAddr> = addresses.chain([loopback]).collect();
    all.into_iter().map(layout::node_address).collect()
}

fn remove(family: IpFamily) -> Result<bool, CounterError> {
    let mut client = NftClient::open_table(table_family(family), layout::TABLE)?;
    if client.table()?.is_none() {
        return Ok(false);
    }
    let mut transaction = Transaction::new();
    transaction.delete_table();
    client.commit(&transaction)?;
    Ok(true)
}

fn failed(family: IpFamily, error: CounterError) -> BackendError {
    BackendError::new("counting connections").caused_by(error).in_family(family)
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panic left is put right by the next reading.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
