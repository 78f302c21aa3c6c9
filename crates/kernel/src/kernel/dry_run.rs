//! A kernel that is read but never written: what would be done is printed.

use std::io::Write;

use super::NftTables;
use crate::netlink::NetlinkError;
use crate::nft::show::{KnownSets, lines};
use crate::nft::{
    Chain, CommitError, Committed, Family, Name, OtherObject, Seen, SeenElements, SeenTable, Set, Transaction,
};

/// Prints instead of committing.
#[derive(Debug)]
pub struct DryRun<K, W> {
    kernel: K,
    out: W,
}

impl<K, W> DryRun<K, W> {
    /// Reads from the kernel, prints to the writer.
    pub fn new(kernel: K, out: W) -> Self {
        Self { kernel, out }
    }

    /// What was printed to.
    pub fn into_output(self) -> W {
        self.out
    }
}

impl<K: NftTables, W: Write> DryRun<K, W> {
    /// The sets by which elements are read. Without them elements are printed as bytes, which is no reason to fail.
    fn known_sets(&mut self) -> KnownSets {
        let sets = self.kernel.sets().unwrap_or_default();
        sets.into_iter().filter_map(|seen| Some((seen.name, seen.object?))).collect()
    }
}

impl<K: NftTables, W: Write> NftTables for DryRun<K, W> {
    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        let (family, known) = (self.kernel.family(), self.known_sets());
        for line in lines(transaction, &known) {
            writeln!(self.out, "{family} {line}").map_err(CommitError::Print)?;
        }
        Ok(Committed {
            generation: transaction.expected_generation().unwrap_or(0),
            written: transaction.written(),
            removed: transaction.removed(),
        })
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
