//! A wrapper that counts full reads, and fails after some commits as a process that is killed would.

use ferrule_kernel::nft::{CommitError, Committed, InjectedFault, NftClient, Transaction};
use ferrule_kernel::port::{NftTables, NftWrapper, Read};

/// The real kernel. Only a full read lists all chains, so those listings are counted.
pub struct Counting {
    pub kernel: NftClient,
    pub listings: usize,
    /// How many commits succeed before all fail.
    pub commits_left: usize,
}

impl Counting {
    pub fn new(kernel: NftClient) -> Self {
        Self { kernel, listings: 0, commits_left: usize::MAX }
    }
}

impl NftWrapper for Counting {
    type Inner = NftClient;

    fn inner(&self) -> &NftClient {
        &self.kernel
    }

    fn reading(&mut self, read: Read) -> &mut NftClient {
        self.listings += usize::from(read == Read::Chains);
        &mut self.kernel
    }
}

impl NftTables for Counting {
    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        let left = self.commits_left.checked_sub(1).ok_or(CommitError::Injected(InjectedFault::Before))?;
        self.commits_left = left;
        self.kernel.commit(transaction)
    }
}
