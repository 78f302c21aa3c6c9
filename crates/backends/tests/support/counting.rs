//! A kernel that counts how often everything is read.

use ferrule_kernel::kernel::NftTables;
use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::nft::{
    Chain, CommitError, Committed, Family, Name, NftClient, Seen, SeenElements, SeenTable, Set, Transaction,
};

/// The real kernel, with a count of the times all chains were listed: only who reads everything does that.
pub struct Counting {
    pub kernel: NftClient,
    pub listings: usize,
}

impl NftTables for Counting {
    fn family(&self) -> Family {
        self.kernel.family()
    }

    fn port(&self) -> u32 {
        self.kernel.port()
    }

    fn generation(&mut self) -> Result<u32, NetlinkError> {
        self.kernel.generation()
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        self.kernel.commit(transaction)
    }

    fn table(&mut self) -> Result<Option<SeenTable>, NetlinkError> {
        self.kernel.table()
    }

    fn sets(&mut self) -> Result<Vec<Seen<Set>>, NetlinkError> {
        self.kernel.sets()
    }

    fn chains(&mut self) -> Result<Vec<Seen<Chain>>, NetlinkError> {
        self.listings += 1;
        self.kernel.chains()
    }

    fn elements(&mut self, set: &Name) -> Result<Option<SeenElements>, NetlinkError> {
        self.kernel.elements(set)
    }
}
