//! A kernel that counts how often everything is read, and that ends after some commits as a process that is killed would.

use ferrule_kernel::kernel::NftTables;
use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::nft::{
    Chain, CommitError, Committed, Family, Name, NftClient, OnPurpose, OtherObject, Seen, SeenElements,
    SeenTable, Set, Transaction,
};

/// The real kernel, with a count of the times all chains were listed: only who reads everything does that.
pub struct Counting {
    pub kernel: NftClient,
    pub listings: usize,
    /// How many commits happen before none does any more.
    pub commits_left: usize,
}

impl Counting {
    pub fn new(kernel: NftClient) -> Self {
        Self { kernel, listings: 0, commits_left: usize::MAX }
    }
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
        let left = self.commits_left.checked_sub(1).ok_or(CommitError::OnPurpose(OnPurpose::Before))?;
        self.commits_left = left;
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

    fn other_objects(&mut self) -> Result<Vec<OtherObject>, NetlinkError> {
        self.kernel.other_objects()
    }
}
