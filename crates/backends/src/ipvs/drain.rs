//! Real servers that get no new connections and go once the ones they have are over.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ferrule_kernel::ipvs::{SeenRealServer, VirtualServerId};
use ferrule_kernel::netlink::NetlinkError;
use ferrule_model::Protocol;

use super::kernel::Kernel;
use crate::Deferred;

/// How often connections are counted again.
const INTERVAL: Duration = Duration::from_mins(1);

/// A server that cannot be removed is not tried all the time.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// The real servers that drain, since when.
#[derive(Debug, Default)]
pub(super) struct Draining {
    since: BTreeMap<VirtualServerId, BTreeMap<SocketAddr, Instant>>,
    /// When connections were last counted.
    counted: Option<Instant>,
    /// After this time a real server goes, whatever its connections.
    limit: Option<Duration>,
}

/// What becomes of a real server that is not wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It goes now.
    Delete,
    /// It gets no new connections.
    Drain,
    /// It is gone already.
    Gone,
}

impl Draining {
    /// Sets an upper limit, or none.
    pub(super) fn set_limit(&mut self, limit: Option<Duration>) {
        self.limit = limit;
    }

    pub(super) fn has(&self, service: &VirtualServerId, server: &SocketAddr) -> bool {
        self.since.get(service).is_some_and(|servers| servers.contains_key(server))
    }

    pub(super) fn count(&self) -> usize {
        self.since.values().map(BTreeMap::len).sum()
    }

    pub(super) fn insert(&mut self, service: VirtualServerId, server: SocketAddr, now: Instant) {
        if self.since.is_empty() {
            self.counted = Some(now);
        }
        self.since.entry(service).or_default().entry(server).or_insert(now);
    }

    pub(super) fn remove(&mut self, service: &VirtualServerId, server: &SocketAddr) {
        if let Some(servers) = self.since.get_mut(service) {
            servers.remove(server);
            if servers.is_empty() {
                self.since.remove(service);
            }
        }
    }

    /// Forgets those that do not drain any more.
    pub(super) fn retain(&mut self, drains: impl Fn(&VirtualServerId, &SocketAddr) -> bool) {
        for (service, servers) in &mut self.since {
            servers.retain(|server, _| drains(service, server));
        }
        self.since.retain(|_, servers| !servers.is_empty());
    }

    /// A virtual server went with all of its real servers.
    pub(super) fn remove_service(&mut self, service: &VirtualServerId) {
        self.since.remove(service);
    }

    /// What is left for later.
    pub(super) fn deferred(&self, now: Instant) -> Option<Deferred> {
        let objects = self.count();
        let after =
            self.next().map_or(INTERVAL, |next| next.saturating_duration_since(now).max(SHORTEST_WAIT));
        (objects > 0).then_some(Deferred { objects, after })
    }

    /// Whether connections are to be counted again.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        !self.since.is_empty() && self.next().is_none_or(|next| now >= next)
    }

    /// Connections are counted now: those that drain.
    pub(super) fn begin_count(&mut self, now: Instant) -> Vec<(VirtualServerId, SocketAddr)> {
        self.counted = Some(now);
        let all = self.since.iter();
        all.flat_map(|(service, servers)| servers.keys().map(|server| (*service, *server))).collect()
    }

    /// The next count, or the end of a limit if that comes first.
    fn next(&self) -> Option<Instant> {
        let regular = self.counted?.checked_add(INTERVAL)?;
        let since = self.since.values().flat_map(BTreeMap::values).min();
        let limited = self.limit.zip(since).and_then(|(limit, since)| since.checked_add(limit));
        Some(limited.map_or(regular, |limited| regular.min(limited)))
    }

    /// What is to become of these real servers, which are not wanted.
    pub(super) fn fates(
        &self,
        kernel: &mut Kernel,
        servers: &[(VirtualServerId, SocketAddr)],
        now: Instant,
    ) -> Result<Vec<Fate>, NetlinkError> {
        let mut read: Option<(VirtualServerId, Vec<SeenRealServer>)> = None;
        let mut fates = Vec::with_capacity(servers.len());
        for (service, server) in servers {
            if !waits_for_connections(service) || self.is_over(service, server, now) {
                fates.push(Fate::Delete);
                continue;
            }
            // They come grouped by virtual server.
            if read.as_ref().is_none_or(|(of, _)| of != service) {
                read = Some((*service, kernel.servers.real_servers(service)?));
            }
            let seen = read.iter().flat_map(|(_, seen)| seen).find(|seen| seen.server.address == *server);
            fates.push(match seen {
                None => Fate::Gone,
                Some(seen) if seen.active == 0 && seen.inactive == 0 => Fate::Delete,
                Some(_) => Fate::Drain,
            });
        }
        Ok(fates)
    }

    fn is_over(&self, service: &VirtualServerId, server: &SocketAddr, now: Instant) -> bool {
        let since = self.since.get(service).and_then(|servers| servers.get(server));
        self.limit.zip(since).is_some_and(|(limit, since)| now.saturating_duration_since(*since) >= limit)
    }
}

/// UDP and SCTP clients do not notice that another server answers.
pub(super) fn waits_for_connections(service: &VirtualServerId) -> bool {
    service.protocol == Protocol::Tcp.number()
}
