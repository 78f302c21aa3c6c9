//! Which endpoint a client used last, for as long as that matters.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) struct Affinity {
    /// `None` while clients are not sticky.
    timeout: Option<Duration>,
    clients: HashMap<IpAddr, Pinned>,
    max_clients: usize,
}

#[derive(Clone, Copy, Debug)]
struct Pinned {
    endpoint: SocketAddr,
    last_used: Instant,
}

impl Affinity {
    pub(super) fn new(max_clients: usize) -> Self {
        Self { timeout: None, clients: HashMap::new(), max_clients: max_clients.max(1) }
    }

    pub(super) fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
        if timeout.is_none() {
            self.clear();
        }
    }

    /// The client's endpoint, unless it has expired. Renews it.
    pub(super) fn endpoint_of(&mut self, client: IpAddr, now: Instant) -> Option<SocketAddr> {
        let timeout = self.timeout?;
        let pinned = self.clients.get_mut(&client).filter(|pinned| pinned.is_fresh(now, timeout))?;
        pinned.last_used = now;
        Some(pinned.endpoint)
    }

    /// Remembers the client's endpoint, if clients are sticky.
    pub(super) fn pin(&mut self, client: IpAddr, endpoint: SocketAddr, now: Instant) {
        if self.timeout.is_none() {
            return;
        }
        if self.clients.len() >= self.max_clients && !self.clients.contains_key(&client) {
            self.make_room(now);
        }
        self.clients.insert(client, Pinned { endpoint, last_used: now });
    }

    /// Forgets expired clients, then the half that was not seen for longest: so that a flood of clients costs each of them
    /// little.
    fn make_room(&mut self, now: Instant) {
        self.purge_expired(now);
        if self.clients.len() < self.max_clients {
            return;
        }
        let mut times: Vec<Instant> = self.clients.values().map(|pinned| pinned.last_used).collect();
        let middle = times.len() / 2;
        let (_, median, _) = times.select_nth_unstable(middle);
        let median = *median;
        self.clients.retain(|_, pinned| pinned.last_used > median);
    }

    pub(super) fn purge_expired(&mut self, now: Instant) {
        if let Some(timeout) = self.timeout {
            self.clients.retain(|_, pinned| pinned.is_fresh(now, timeout));
        }
    }

    pub(super) fn forget_endpoints(&mut self, vanished: &[SocketAddr]) {
        self.clients.retain(|_, pinned| !vanished.contains(&pinned.endpoint));
    }

    pub(super) fn clear(&mut self) {
        self.clients = HashMap::new();
    }

    pub(super) fn len(&self) -> usize {
        self.clients.len()
    }
}

impl Pinned {
    /// Whole seconds count.
    fn is_fresh(&self, now: Instant, timeout: Duration) -> bool {
        now.saturating_duration_since(self.last_used).as_secs() < timeout.as_secs()
    }
}
