//! The port between reconcilers and the kernel: they use these traits, tests put a wrapper in between.
//!
//! [`Faulty`] injects failures, [`DryRun`] prints instead of writing, [`FakeIpvsKernel`] has virtual servers, sets and
//! interfaces in memory. The real implementations are [`NftClient`](crate::nft::NftClient),
//! [`IptablesCommands`](crate::iptables::IptablesCommands), [`NetlinkTables`](crate::iptables::direct::NetlinkTables),
//! [`Ipvs`](crate::ipvs::Ipvs), [`IpSets`](crate::ipset::IpSets) and [`LinkClient`](crate::dummy::LinkClient).

mod boxed;
mod dry_run;
mod fake;
mod faulty;
mod ipvs;

pub use dry_run::DryRun;
pub use fake::FakeIpvsKernel;
pub use faulty::{Faults, Faulty};
pub use ipvs::{AddressSets, ServiceInterface, VirtualServers};

use std::collections::BTreeSet;
use std::time::Duration;

use crate::iptables::{IptablesError, RestoreText, RuleText, Saved, StampedChain};
use crate::netlink::NetlinkError;
use crate::nft::{
    Chain, CommitError, Committed, Family, Name, OtherObject, Seen, SeenElements, SeenTable, Set, Transaction,
};
use crate::subprocess::Cancel;

/// Reads one family's nftables table.
pub trait NftReader {
    /// The table's family.
    fn family(&self) -> Family;

    /// The netlink portid that notifications of our own commits carry.
    fn portid(&self) -> u32;

    /// The ruleset generation, which every commit of any program increments.
    fn generation(&mut self) -> Result<u32, NetlinkError>;

    /// The table, if it exists.
    fn table(&mut self) -> Result<Option<SeenTable>, NetlinkError>;

    /// All sets and maps.
    fn sets(&mut self) -> Result<Vec<Seen<Set>>, NetlinkError>;

    /// All chains with their rules.
    fn chains(&mut self) -> Result<Vec<Seen<Chain>>, NetlinkError>;

    /// The elements of a set that have not expired, or `None` if there is no such set.
    fn elements(&mut self, set: &Name) -> Result<Option<SeenElements>, NetlinkError>;

    /// Objects of kinds that we never create: flowtables, named counters, quotas and so on.
    fn other_objects(&mut self) -> Result<Vec<OtherObject>, NetlinkError>;
}

/// Reads and writes one family's nftables table.
pub trait NftTables: NftReader {
    /// Applies a whole transaction or nothing of it.
    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError>;
}

/// A read that a wrapper passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// See [`NftReader::generation`].
    Generation,
    /// See [`NftReader::table`].
    Table,
    /// See [`NftReader::sets`].
    Sets,
    /// See [`NftReader::chains`].
    Chains,
    /// See [`NftReader::elements`].
    Elements,
    /// See [`NftReader::other_objects`].
    OtherObjects,
}

/// A wrapper around another table. It is an [`NftReader`] by this alone, and writes its own
/// [`commit`](NftTables::commit).
pub trait NftWrapper {
    /// What is wrapped.
    type Inner: NftReader;

    /// The wrapped table.
    fn inner(&self) -> &Self::Inner;

    /// The wrapped table, about to be read.
    fn reading(&mut self, read: Read) -> &mut Self::Inner;
}

impl<W: NftWrapper> NftReader for W {
    fn family(&self) -> Family {
        self.inner().family()
    }

    fn portid(&self) -> u32 {
        self.inner().portid()
    }

    fn generation(&mut self) -> Result<u32, NetlinkError> {
        self.reading(Read::Generation).generation()
    }

    fn table(&mut self) -> Result<Option<SeenTable>, NetlinkError> {
        self.reading(Read::Table).table()
    }

    fn sets(&mut self) -> Result<Vec<Seen<Set>>, NetlinkError> {
        self.reading(Read::Sets).sets()
    }

    fn chains(&mut self) -> Result<Vec<Seen<Chain>>, NetlinkError> {
        self.reading(Read::Chains).chains()
    }

    fn elements(&mut self, set: &Name) -> Result<Option<SeenElements>, NetlinkError> {
        self.reading(Read::Elements).elements(set)
    }

    fn other_objects(&mut self) -> Result<Vec<OtherObject>, NetlinkError> {
        self.reading(Read::OtherObjects).other_objects()
    }
}

/// One family's tables as iptables sees them, whatever reads and writes them.
pub trait XTables {
    /// The tables' family.
    fn family(&self) -> Family;

    /// All rules of all tables.
    fn save(&mut self) -> Result<Saved, IptablesError>;

    /// Applies the changes, each table's atomically. Chains that the text does not name stay as they are.
    fn restore(&mut self, text: &RestoreText) -> Result<(), IptablesError>;

    /// All rules of these tables, or of all if none is named, unless it is cancelled.
    fn save_tables(&mut self, tables: &[&'static str], cancel: &Cancel) -> Result<Saved, IptablesError>;

    /// Fails if another program holds the xtables lock. Advisory: it may be taken a moment later.
    fn check_lock(&mut self) -> Result<(), IptablesError> {
        Ok(())
    }

    /// Whether `iptables-restore --test` accepts the text. Changes nothing.
    fn test(&mut self, text: &RestoreText) -> Result<(), IptablesError>;

    /// The rules of a chain, or `None` if there is no such chain.
    fn chain_rules(&mut self, table: &str, chain: &str) -> Result<Option<Vec<RuleText>>, IptablesError>;

    /// The names of all chains of a table; `None` where they cannot be listed without their rules.
    fn chain_names(&mut self, _table: &str) -> Result<Option<BTreeSet<String>>, IptablesError> {
        Ok(None)
    }

    /// The generation of the ruleset, which every commit of any program increments; `None` where changes are not counted.
    fn generation(&mut self) -> Result<Option<u32>, IptablesError> {
        Ok(None)
    }

    /// The netlink portid that notifications of our own commits carry, where there are any.
    fn portid(&self) -> Option<u32> {
        None
    }

    /// Like [`Self::restore`], and in the same step leaves a stamp on a chain. The stamp is made for the generation that the
    /// change becomes, which is returned. Where changes are not counted there are no stamps.
    fn restore_stamped(
        &mut self,
        text: &RestoreText,
        _chain: StampedChain,
        _stamp: &dyn Fn(u32) -> Vec<u8>,
    ) -> Result<Option<u32>, IptablesError> {
        self.restore(text).map(|()| None)
    }

    /// The stamp of a chain, if there is one.
    fn stamp(&mut self, _chain: StampedChain) -> Result<Option<Vec<u8>>, IptablesError> {
        Ok(None)
    }

    /// How long the last change waited for the xtables lock, where there is one. Reset by reading it.
    fn lock_wait(&mut self) -> Option<Duration> {
        None
    }
}
