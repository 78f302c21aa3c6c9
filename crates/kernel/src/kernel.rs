//! The seam between what is wanted and the kernel: reconcilers speak to [`NftTables`] or [`XTables`], tests put something in
//! between.
//!
//! [`Faulty`] fails on purpose, [`DryRun`] prints instead of writing. The real ones are [`NftClient`] and [`Programs`].

mod dry_run;
mod faulty;

pub use dry_run::DryRun;
pub use faulty::{Faults, Faulty};

use std::time::Duration;

use crate::iptables::{IptablesError, Programs, RestoreText, Saved};
use crate::netlink::NetlinkError;
use crate::nft::{
    Chain, CommitError, Committed, Family, Name, NftClient, OtherObject, Seen, SeenElements, SeenTable, Set,
    Transaction,
};
use crate::subprocess::Cancel;

/// One family's table.
pub trait NftTables {
    /// The family.
    fn family(&self) -> Family;

    /// The netlink address by which events tell our own commits from others'.
    fn port(&self) -> u32;

    /// The number that grows with every change of any rules by anyone.
    fn generation(&mut self) -> Result<u32, NetlinkError>;

    /// Makes all of a transaction happen, or nothing.
    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError>;

    /// The table, if it is there.
    fn table(&mut self) -> Result<Option<SeenTable>, NetlinkError>;

    /// All sets and maps.
    fn sets(&mut self) -> Result<Vec<Seen<Set>>, NetlinkError>;

    /// All chains with their rules.
    fn chains(&mut self) -> Result<Vec<Seen<Chain>>, NetlinkError>;

    /// The elements of a set that have not expired, or `None` if there is no such set.
    fn elements(&mut self, set: &Name) -> Result<Option<SeenElements>, NetlinkError>;

    /// Objects of kinds we never make: flowtables, named counters, quotas and so on.
    fn other_objects(&mut self) -> Result<Vec<OtherObject>, NetlinkError>;
}

impl NftTables for NftClient {
    fn family(&self) -> Family {
        self.family()
    }

    fn port(&self) -> u32 {
        self.port()
    }

    fn generation(&mut self) -> Result<u32, NetlinkError> {
        self.generation()
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        self.commit(transaction)
    }

    fn table(&mut self) -> Result<Option<SeenTable>, NetlinkError> {
        self.table()
    }

    fn sets(&mut self) -> Result<Vec<Seen<Set>>, NetlinkError> {
        self.sets()
    }

    fn chains(&mut self) -> Result<Vec<Seen<Chain>>, NetlinkError> {
        self.chains()
    }

    fn elements(&mut self, set: &Name) -> Result<Option<SeenElements>, NetlinkError> {
        self.elements(set)
    }

    fn other_objects(&mut self) -> Result<Vec<OtherObject>, NetlinkError> {
        self.other_objects()
    }
}

/// One family's tables as the iptables programs know them.
pub trait XTables {
    /// The family.
    fn family(&self) -> Family;

    /// All rules of all tables.
    fn save(&mut self) -> Result<Saved, IptablesError>;

    /// Makes the changes of a text happen, each table's or nothing.
    fn restore(&mut self, text: &RestoreText) -> Result<(), IptablesError>;

    /// All rules of these tables, or of all if none is named, unless somebody ends it before.
    fn save_tables(&mut self, tables: &[&'static str], cancel: &Cancel) -> Result<Saved, IptablesError>;

    /// Whether nothing of others is in the way of a change.
    fn check_lock(&mut self) -> Result<(), IptablesError> {
        Ok(())
    }

    /// Whether a text would be understood. Nothing is changed.
    fn test(&mut self, text: &RestoreText) -> Result<(), IptablesError>;

    /// How many rules a chain has, if it is there.
    fn rules_of(&mut self, table: &str, chain: &str) -> Result<Option<usize>, IptablesError>;

    /// How long the last change waited for the lock that users of iptables share, where there is one; said once for each.
    fn lock_wait(&mut self) -> Option<Duration> {
        None
    }
}

impl XTables for Programs {
    fn family(&self) -> Family {
        self.family()
    }

    fn save(&mut self) -> Result<Saved, IptablesError> {
        self.save()
    }

    fn restore(&mut self, text: &RestoreText) -> Result<(), IptablesError> {
        self.restore(text)
    }

    fn save_tables(&mut self, tables: &[&'static str], cancel: &Cancel) -> Result<Saved, IptablesError> {
        self.save_tables(tables, Some(cancel))
    }

    fn check_lock(&mut self) -> Result<(), IptablesError> {
        self.check_lock()
    }

    fn test(&mut self, text: &RestoreText) -> Result<(), IptablesError> {
        self.test(text)
    }

    fn rules_of(&mut self, table: &str, chain: &str) -> Result<Option<usize>, IptablesError> {
        self.rules_of(table, chain)
    }

    fn lock_wait(&mut self) -> Option<Duration> {
        self.lock_wait()
    }
}
