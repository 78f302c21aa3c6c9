//! Virtual servers, address sets and interfaces in memory, for tests of logic on machines without IPVS.
//!
//! Answers and rejects as Linux does, as far as ipvs mode can tell. Forwards no packets, so connections are whatever a test says.
//! Every write is recorded as a line of text, also one that is rejected.

mod address_sets;
mod interface;
mod virtual_servers;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::dummy::Link;
use crate::ipvs::{FirewallMark, Stats, VirtualServerId};
use crate::netlink::{NetlinkError, Rejection};
use crate::nft::Family;

use address_sets::FakeSet;
use interface::FakeLink;
use virtual_servers::FakeService;

/// The schedulers of Debian's kernels: all but `twos`.
const SCHEDULERS: [&str; 13] =
    ["rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sh", "dh", "mh", "sed", "nq", "fo", "ovf"];

/// A kernel in memory. Clones share it.
#[derive(Clone, Debug)]
pub struct FakeIpvsKernel {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    schedulers: Vec<String>,
    services: BTreeMap<VirtualServerId, FakeService>,
    fwmarks: Vec<FirewallMark>,
    /// Left out of the next listing.
    skipped: Option<VirtualServerId>,
    sets: BTreeMap<String, FakeSet>,
    links: BTreeMap<String, FakeLink>,
    /// Never used again, as in Linux.
    last_index: u32,
    writes: Vec<String>,
    reads: Vec<String>,
    faults: Vec<Fault>,
}

/// A failure that is to come.
#[derive(Debug)]
struct Fault {
    /// How the lines of the requests begin that it can hit.
    kind: String,
    /// How many of them pass before.
    passing: usize,
    errno: i32,
}

impl Default for FakeIpvsKernel {
    fn default() -> Self {
        let state = State {
            schedulers: SCHEDULERS.map(str::to_owned).to_vec(),
            services: BTreeMap::new(),
            fwmarks: Vec::new(),
            skipped: None,
            sets: BTreeMap::new(),
            links: BTreeMap::new(),
            last_index: 1,
            writes: Vec::new(),
            reads: Vec::new(),
            faults: Vec::new(),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }
}

impl FakeIpvsKernel {
    /// An empty kernel with all schedulers but `twos`.
    pub fn new() -> Self {
        Self::default()
    }

    /// All writes so far, in order. A rejected one ends in what the kernel said.
    ///
    /// ```text
    /// ipvs add 10.0.0.1:80/TCP rr            ipvs set …           ipvs delete 10.0.0.1:80/TCP
    /// server add 10.0.0.1:80/TCP 10.1.1.1:8080 weight 1           server set …
    /// server delete 10.0.0.1:80/TCP 10.1.1.1:8080
    /// set create KUBE-CLUSTER-IP hash:ip,port                     set destroy KUBE-CLUSTER-IP
    /// set add KUBE-CLUSTER-IP 10.0.0.1,tcp:80                     set delete …
    /// link create kube-ipvs0                 link delete kube-ipvs0
    /// addr add 10.0.0.1                      addr delete 10.0.0.1
    /// ```
    pub fn writes(&self) -> Vec<String> {
        self.state().writes.clone()
    }

    /// Like [`Self::writes`], and forgets them.
    pub fn take_writes(&self) -> Vec<String> {
        std::mem::take(&mut self.state().writes)
    }

    /// All reads since the last call, as [`Self::reject`] names them.
    pub fn take_reads(&self) -> Vec<String> {
        std::mem::take(&mut self.state().reads)
    }

    /// Rejects the n-th request, from 1, whose line begins with `kind` from now on, with this error code.
    ///
    /// Reads can be rejected too: `ipvs list`, `server list 10.0.0.1:80/TCP`, `set list`, `set list KUBE-CLUSTER-IP`,
    /// `link find kube-ipvs0`, `addr list`.
    pub fn reject(&self, kind: &str, nth: usize, errno: i32) {
        let passing = nth.saturating_sub(1);
        self.state().faults.push(Fault { kind: kind.to_owned(), passing, errno });
    }

    /// Gives an interface an address with a network behind it.
    pub fn add_network(&self, name: &str) {
        if let Some(link) = self.state().links.get_mut(name) {
            link.has_networks = true;
        }
    }

    /// Adds a scheduler, as if its module were there.
    pub fn add_scheduler(&self, name: &str) {
        self.state().schedulers.push(name.to_owned());
    }

    /// Takes a scheduler away, as if its module were missing.
    pub fn remove_scheduler(&self, name: &str) {
        self.state().schedulers.retain(|scheduler| scheduler != name);
    }

    /// Adds a service that is chosen by a firewall mark.
    pub fn add_fwmark(&self, family: Family, mark: u32) {
        self.state().fwmarks.push(FirewallMark { family, mark });
    }

    /// Leaves a virtual server out of the next listing, as Linux may if one is deleted meanwhile, in whichever namespace.
    pub fn skip_once(&self, service: VirtualServerId) {
        self.state().skipped = Some(service);
    }

    /// Gives a set a timeout for its entries, and returns whether there is such a set.
    pub fn set_timeout(&self, set: &str) -> bool {
        self.state().sets.get_mut(set).map(|set| set.has_extensions = true).is_some()
    }

    /// So many clients connect to a real server and exchange ten packets of a hundred bytes each.
    pub fn connect(&self, service: VirtualServerId, server: SocketAddr, times: u64) {
        let mut state = self.state();
        let Some(service) = state.services.get_mut(&service) else { return };
        let counts = |stats: &mut Stats| {
            stats.connections += times;
            stats.in_packets += 6 * times;
            stats.out_packets += 4 * times;
            stats.in_bytes += 600 * times;
            stats.out_bytes += 400 * times;
        };
        counts(&mut service.stats);
        if let Some(server) = service.servers.get_mut(&server) {
            counts(&mut server.stats);
        }
    }

    /// Sets the connection counts of a real server, and returns whether there is such a server.
    pub fn set_connections(
        &self,
        service: &VirtualServerId,
        server: SocketAddr,
        active: u32,
        inactive: u32,
    ) -> bool {
        let mut state = self.state();
        let server = state.services.get_mut(service).and_then(|service| service.servers.get_mut(&server));
        server.map(|server| (server.active, server.inactive) = (active, inactive)).is_some()
    }

    /// Sets how many rules use a set, and returns whether there is such a set.
    pub fn set_references(&self, set: &str, references: u32) -> bool {
        self.state().sets.get_mut(set).map(|set| set.references = references).is_some()
    }

    /// Sets how many entries a set may have, and returns whether there is such a set.
    pub fn set_maxelem(&self, set: &str, maxelem: u32) -> bool {
        self.state().sets.get_mut(set).map(|set| set.maxelem = maxelem).is_some()
    }

    /// Adds an interface that is not ours, and records nothing.
    pub fn add_link(&self, name: &str, kind: Option<&str>) -> Link {
        self.state().add_link(name, kind)
    }

    /// The addresses of an interface in order; none if there is no such interface.
    pub fn addresses_of(&self, name: &str) -> Vec<IpAddr> {
        let state = self.state();
        state.links.get(name).map(|link| link.addresses.iter().copied().collect()).unwrap_or_default()
    }

    /// A test that failed may have left the lock poisoned; the state is still worth looking at.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Applies and records a write, unless it is to be rejected.
    fn write(
        &mut self,
        line: String,
        apply: impl FnOnce(&mut Self) -> Result<(), i32>,
    ) -> Result<(), Rejection> {
        let outcome = match self.fault(&line) {
            Some(errno) => Err(errno),
            None => apply(self),
        };
        let outcome = outcome.map_err(Rejection::from_errno);
        self.writes.push(match &outcome {
            Ok(()) => line,
            Err(rejection) => format!("{line}: {rejection}"),
        });
        outcome
    }

    /// Records a read, and rejects it if it is to be.
    fn read(&mut self, line: &str) -> Result<(), NetlinkError> {
        self.reads.push(line.to_owned());
        match self.fault(line) {
            Some(errno) => Err(rejected(Rejection::from_errno(errno))),
            None => Ok(()),
        }
    }

    fn fault(&mut self, line: &str) -> Option<i32> {
        let mut hit = None;
        self.faults.retain_mut(|fault| {
            if hit.is_some() || !line.starts_with(&fault.kind) {
                return true;
            }
            let hits = fault.passing == 0;
            fault.passing = fault.passing.saturating_sub(1);
            if hits {
                hit = Some(fault.errno);
            }
            !hits
        });
        hit
    }
}

fn rejected(rejection: Rejection) -> NetlinkError {
    NetlinkError::Rejected { operation: "asking a kernel in memory", rejection }
}

#[cfg(test)]
mod tests;
