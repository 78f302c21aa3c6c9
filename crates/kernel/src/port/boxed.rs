//! Tables behind a pointer are tables.

use std::collections::BTreeSet;
use std::time::Duration;

use super::XTables;
use crate::iptables::{IptablesError, RestoreText, RuleText, Saved, StampedChain};
use crate::nft::Family;
use crate::subprocess::Cancel;

impl XTables for Box<dyn XTables + Send> {
    fn family(&self) -> Family {
        (**self).family()
    }

    fn save(&mut self) -> Result<Saved, IptablesError> {
        (**self).save()
    }

    fn restore(&mut self, text: &RestoreText) -> Result<(), IptablesError> {
        (**self).restore(text)
    }

    fn save_tables(&mut self, tables: &[&'static str], cancel: &Cancel) -> Result<Saved, IptablesError> {
        (**self).save_tables(tables, cancel)
    }

    fn check_lock(&mut self) -> Result<(), IptablesError> {
        (**self).check_lock()
    }

    fn test(&mut self, text: &RestoreText) -> Result<(), IptablesError> {
        (**self).test(text)
    }

    fn chain_rules(&mut self, table: &str, chain: &str) -> Result<Option<Vec<RuleText>>, IptablesError> {
        (**self).chain_rules(table, chain)
    }

    fn chain_names(&mut self, table: &str) -> Result<Option<BTreeSet<String>>, IptablesError> {
        (**self).chain_names(table)
    }

    fn generation(&mut self) -> Result<Option<u32>, IptablesError> {
        (**self).generation()
    }

    fn portid(&self) -> Option<u32> {
        (**self).portid()
    }

    fn restore_stamped(
        &mut self,
        text: &RestoreText,
        chain: StampedChain,
        stamp: &dyn Fn(u32) -> Vec<u8>,
    ) -> Result<Option<u32>, IptablesError> {
        (**self).restore_stamped(text, chain, stamp)
    }

    fn stamp(&mut self, chain: StampedChain) -> Result<Option<Vec<u8>>, IptablesError> {
        (**self).stamp(chain)
    }

    fn lock_wait(&mut self) -> Option<Duration> {
        (**self).lock_wait()
    }
}
