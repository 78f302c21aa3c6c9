//! A kernel that fails now and then, on purpose, always the same way for the same seed.

use std::time::Duration;

use super::{NftTables, XTables};
use crate::iptables::{IptablesError, RestoreText, Saved};
use crate::netlink::NetlinkError;
use crate::nft::{
    Chain, CommitError, Committed, Family, Name, OnPurpose, OtherObject, Seen, SeenElements, SeenTable, Set,
    Transaction,
};
use crate::subprocess::Cancel;

/// How often commits fail, in a thousand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Nothing happens, and an error is reported.
    pub before: u32,
    /// Everything happens, and an error is reported all the same: the caller cannot know.
    pub after: u32,
}

impl Default for Faults {
    /// One commit in ten fails; half of those happen nevertheless.
    fn default() -> Self {
        Self { before: 50, after: 50 }
    }
}

/// A kernel that fails on purpose.
#[derive(Debug)]
pub struct Faulty<K> {
    kernel: K,
    faults: Faults,
    state: u64,
    /// Lines of iptables rules that hold this are spoilt on their way.
    spoilt: Option<String>,
}

/// What no version of iptables knows.
const SPOILER: &str = " --spoilt-on-purpose";

impl<K> Faulty<K> {
    /// Fails so often, in an order that the seed decides.
    pub fn new(kernel: K, faults: Faults, seed: u64) -> Self {
        Self { kernel, faults, state: seed, spoilt: None }
    }

    /// From now on iptables rules that hold this text are refused by the program itself, or none.
    pub fn spoil(&mut self, text: Option<&str>) {
        self.spoilt = text.map(str::to_owned);
    }

    /// The kernel behind.
    pub fn kernel(&mut self) -> &mut K {
        &mut self.kernel
    }

    fn fate(&mut self) -> Option<OnPurpose> {
        // SplitMix64: small, and good enough to decide who fails.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let drawn = (mixed ^ (mixed >> 31)) % 1000;
        let (before, after) = (u64::from(self.faults.before), u64::from(self.faults.after));
        match drawn {
            drawn if drawn < before => Some(OnPurpose::Before),
            drawn if drawn < before + after => Some(OnPurpose::After),
            _ => None,
        }
    }
}

impl<K: NftTables> NftTables for Faulty<K> {
    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        match self.fate() {
            Some(OnPurpose::Before) => Err(CommitError::OnPurpose(OnPurpose::Before)),
            Some(OnPurpose::After) => {
                self.kernel.commit(transaction)?;
                Err(CommitError::OnPurpose(OnPurpose::After))
            }
            None => self.kernel.commit(transaction),
        }
    }

    fn family(&self) -> Family {
        self.kernel.family()
    }

    fn port(&self) -> u32 {
        self.kernel.port()
    }

    fn generation(&mut self) -> Result<u32, NetlinkError> {
        self.kernel.generation()
    }

    fn table(&mut self) -> Result<Option<SeenTable>, NetlinkError> {
        self.kernel.table()
    }

    fn sets(&mut self) -> Result<Vec<Seen<Set>>, NetlinkError> {
        self.kernel.sets()
    }

    fn chains(&mut self) -> Result<Vec<Seen<Chain>>, NetlinkError> {
        self.kernel.chains()
    }

    fn elements(&mut self, set: &Name) -> Result<Option<SeenElements>, NetlinkError> {
        self.kernel.elements(set)
    }

    fn other_objects(&mut self) -> Result<Vec<OtherObject>, NetlinkError> {
        self.kernel.other_objects()
    }
}

impl<K: XTables> Faulty<K> {
    /// Has something done with a text whose lines are spoilt, if any are to be.
    fn with_spoilt(
        &mut self,
        text: &RestoreText,
        work: fn(&mut K, &RestoreText) -> Result<(), IptablesError>,
    ) -> Result<(), IptablesError> {
        let Some(spoilt) = &self.spoilt else { return work(&mut self.kernel, text) };
        let changed = text.respelled(|line| {
            let spoiler = if line.starts_with('-') && line.contains(spoilt) { SPOILER } else { "" };
            format!("{line}{spoiler}")
        });
        // The caller knows the line as it wrote it.
        work(&mut self.kernel, &changed).map_err(|mut error| {
            if let IptablesError::Failed { at: Some(at), .. } = &mut error {
                *at = at.replace(SPOILER, "");
            }
            error
        })
    }
}

impl<K: XTables> XTables for Faulty<K> {
    fn family(&self) -> Family {
        self.kernel.family()
    }

    fn save(&mut self) -> Result<Saved, IptablesError> {
        self.kernel.save()
    }

    fn restore(&mut self, text: &RestoreText) -> Result<(), IptablesError> {
        match self.fate() {
            Some(OnPurpose::Before) => Err(IptablesError::OnPurpose),
            Some(OnPurpose::After) => {
                self.with_spoilt(text, K::restore)?;
                Err(IptablesError::OnPurpose)
            }
            None => self.with_spoilt(text, K::restore),
        }
    }

    fn save_tables(&mut self, tables: &[&'static str], cancel: &Cancel) -> Result<Saved, IptablesError> {
        self.kernel.save_tables(tables, cancel)
    }

    fn check_lock(&mut self) -> Result<(), IptablesError> {
        self.kernel.check_lock()
    }

    fn test(&mut self, text: &RestoreText) -> Result<(), IptablesError> {
        self.with_spoilt(text, K::test)
    }

    fn rules_of(&mut self, table: &str, chain: &str) -> Result<Option<usize>, IptablesError> {
        self.kernel.rules_of(table, chain)
    }

    fn lock_wait(&mut self) -> Option<Duration> {
        self.kernel.lock_wait()
    }
}
