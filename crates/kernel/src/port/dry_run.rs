//! A wrapper that reads but never writes: it prints what would be committed.

use std::io::Write;

use super::{NftReader, NftTables, NftWrapper, Read};
use crate::nft::show::{KnownSets, lines};
use crate::nft::{CommitError, Committed, Transaction};

/// Prints instead of committing.
#[derive(Debug)]
pub struct DryRun<K, W> {
    kernel: K,
    out: W,
}

impl<K, W> DryRun<K, W> {
    /// Reads from `kernel`, prints to `out`.
    pub fn new(kernel: K, out: W) -> Self {
        Self { kernel, out }
    }

    /// What was printed.
    pub fn into_output(self) -> W {
        self.out
    }
}

impl<K: NftReader, W: Write> DryRun<K, W> {
    /// The sets that give elements their types. Without them elements are printed as bytes, which is no reason to fail.
    fn known_sets(&mut self) -> KnownSets {
        let sets = self.kernel.sets().unwrap_or_default();
        sets.into_iter().filter_map(|seen| Some((seen.name, seen.object?))).collect()
    }
}

impl<K: NftReader, W> NftWrapper for DryRun<K, W> {
    type Inner = K;

    fn inner(&self) -> &K {
        &self.kernel
    }

    fn reading(&mut self, _: Read) -> &mut K {
        &mut self.kernel
    }
}

impl<K: NftReader, W: Write> NftTables for DryRun<K, W> {
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
}
