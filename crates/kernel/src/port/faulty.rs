//! A wrapper that injects failures, in an order that a seed decides.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{NftReader, NftTables, NftWrapper, Read, XTables};
use crate::iptables::{IptablesError, RestoreText, RuleText, Saved, StampedChain};
use crate::nft::{CommitError, Committed, Family, InjectedFault, Transaction};
use crate::subprocess::Cancel;

/// How many of a thousand commits fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Fail without having written anything.
    pub before: u32,
    /// Fail after everything was written: the caller cannot know.
    pub after: u32,
}

impl Default for Faults {
    /// One commit in ten fails; half of those are written nevertheless.
    fn default() -> Self {
        Self { before: 50, after: 50 }
    }
}

/// Injects failures into commits and restores.
#[derive(Debug)]
pub struct Faulty<K> {
    kernel: K,
    faults: Faults,
    state: u64,
    /// iptables rules that contain this text are corrupted on the way.
    corrupted: Option<String>,
}

/// An option that no version of iptables knows.
const UNKNOWN_OPTION: &str = " --injected-fault";

impl<K> Faulty<K> {
    /// Fails as often as `faults` says, in an order that the seed decides.
    pub fn new(kernel: K, faults: Faults, seed: u64) -> Self {
        Self { kernel, faults, state: seed, corrupted: None }
    }

    /// From now on iptables itself rejects rules that contain this text; with `None` it rejects none.
    pub fn corrupt(&mut self, text: Option<&str>) {
        self.corrupted = text.map(str::to_owned);
    }

    /// The wrapped table.
    pub fn kernel(&mut self) -> &mut K {
        &mut self.kernel
    }

    fn next_fault(&mut self) -> Option<InjectedFault> {
        // SplitMix64: small, and good enough here.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let drawn = (mixed ^ (mixed >> 31)) % 1000;
        let (before, after) = (u64::from(self.faults.before), u64::from(self.faults.after));
        match drawn {
            drawn if drawn < before => Some(InjectedFault::Before),
            drawn if drawn < before + after => Some(InjectedFault::After),
            _ => None,
        }
    }
}

impl<K: NftReader> NftWrapper for Faulty<K> {
    type Inner = K;

    fn inner(&self) -> &K {
        &self.kernel
    }

    fn reading(&mut self, _: Read) -> &mut K {
        &mut self.kernel
    }
}

impl<K: NftTables> NftTables for Faulty<K> {
    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        match self.next_fault() {
            Some(InjectedFault::Before) => Err(CommitError::Injected(InjectedFault::Before)),
            Some(InjectedFault::After) => {
                self.kernel.commit(transaction)?;
                Err(CommitError::Injected(InjectedFault::After))
            }
            None => self.kernel.commit(transaction),
        }
    }
}

impl<K: XTables> Faulty<K> {
    /// Writes, with the next fault.
    fn with_fault<T>(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<T, IptablesError>,
    ) -> Result<T, IptablesError> {
        match self.next_fault() {
            Some(InjectedFault::Before) => Err(IptablesError::Injected),
            Some(InjectedFault::After) => write(self).and(Err(IptablesError::Injected)),
            None => write(self),
        }
    }

    /// Runs `work` on the text, with the lines corrupted that are to be.
    fn with_corrupted<T>(
        &mut self,
        text: &RestoreText,
        work: impl FnOnce(&mut K, &RestoreText) -> Result<T, IptablesError>,
    ) -> Result<T, IptablesError> {
        let Some(corrupted) = &self.corrupted else { return work(&mut self.kernel, text) };
        let changed = text.map_lines(|line| {
            let option = if line.starts_with('-') && line.contains(corrupted) { UNKNOWN_OPTION } else { "" };
            format!("{line}{option}")
        });
        // The caller knows the line as it wrote it.
        work(&mut self.kernel, &changed).map_err(|mut error| {
            if let Some(at) = error.rejected_line_mut() {
                *at = at.replace(UNKNOWN_OPTION, "");
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
        self.with_fault(|faulty| faulty.with_corrupted(text, K::restore))
    }

    fn save_tables(&mut self, tables: &[&'static str], cancel: &Cancel) -> Result<Saved, IptablesError> {
        self.kernel.save_tables(tables, cancel)
    }

    fn check_lock(&mut self) -> Result<(), IptablesError> {
        self.kernel.check_lock()
    }

    fn test(&mut self, text: &RestoreText) -> Result<(), IptablesError> {
        self.with_corrupted(text, K::test)
    }

    fn chain_rules(&mut self, table: &str, chain: &str) -> Result<Option<Vec<RuleText>>, IptablesError> {
        self.kernel.chain_rules(table, chain)
    }

    fn chain_names(&mut self, table: &str) -> Result<Option<BTreeSet<String>>, IptablesError> {
        self.kernel.chain_names(table)
    }

    fn generation(&mut self) -> Result<Option<u32>, IptablesError> {
        self.kernel.generation()
    }

    fn portid(&self) -> Option<u32> {
        self.kernel.portid()
    }

    fn restore_stamped(
        &mut self,
        text: &RestoreText,
        chain: StampedChain,
        stamp: &dyn Fn(u32) -> Vec<u8>,
    ) -> Result<Option<u32>, IptablesError> {
        self.with_fault(|faulty| {
            faulty.with_corrupted(text, |kernel, text| kernel.restore_stamped(text, chain, stamp))
        })
    }

    fn stamp(&mut self, chain: StampedChain) -> Result<Option<Vec<u8>>, IptablesError> {
        self.kernel.stamp(chain)
    }

    fn lock_wait(&mut self) -> Option<Duration> {
        self.kernel.lock_wait()
    }
}
