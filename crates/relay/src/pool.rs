//! The endpoints behind one or more portals, and the choice among them.
//!
//! Shuffled round robin ([`rotation`]), client affinity ([`affinity`]), passive health ([`health`]). Knows no sockets: the relay
//! asks for an endpoint and reports what became of it.

mod affinity;
mod health;
mod rotation;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::Admission;
use affinity::Affinity;
use health::Health;
use rotation::Rotation;

/// The endpoints behind one or more portals. Thread-safe, cheap to pick from.
pub struct Pool {
    state: Mutex<State>,
    limits: PoolLimits,
    pub(crate) usage: Usage,
    /// Set while any endpoint has failed since its last success, so that successes are free otherwise.
    any_failed: AtomicBool,
    observers: Mutex<Vec<Weak<dyn EndpointObserver>>>,
    /// Clients served since they were taken, by endpoint; `None` if they are not counted.
    served: Mutex<Option<BTreeMap<SocketAddr, u64>>>,
}

#[derive(Debug)]
struct State {
    rotation: Rotation,
    affinity: Affinity,
    health: Health,
    admission: Admission,
}

/// What a pool may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// Open TCP connections. Further clients are reset.
    pub max_connections: usize,
    /// UDP associations. A new client takes the place of the one that was idle longest.
    pub max_associations: usize,
    /// Bytes that may wait for slow readers. Beyond, no more is read than the reader takes at once.
    pub max_held_bytes: usize,
    /// Clients whose endpoint is remembered. Beyond, those not seen for longest are forgotten.
    pub max_sticky_clients: usize,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self {
            max_connections: 1 << 16,
            max_associations: 1 << 14,
            max_held_bytes: 16 << 20,
            max_sticky_clients: 1 << 16,
        }
    }
}

/// How often an endpoint is asked for on behalf of one client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The first time: a sticky client gets its endpoint.
    First,
    /// The endpoint chosen before failed: the next one, to which a sticky client is moved.
    Again,
}

/// Why there is no endpoint for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PickError {
    /// The pool is empty.
    #[error("missing endpoints")]
    NoEndpoints,
    /// The client's address is not admitted.
    #[error("the client's address is not admitted")]
    NotAdmitted,
}

/// What a pool holds now, and what it refused since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Endpoints to choose from.
    pub endpoints: usize,
    /// Endpoints that are set aside because they failed.
    pub set_aside: usize,
    /// Clients whose endpoint is remembered.
    pub sticky_clients: usize,
    /// Open TCP connections.
    pub open_connections: usize,
    /// Open UDP associations.
    pub open_associations: usize,
    /// Bytes that wait for slow readers.
    pub held_bytes: usize,
    /// Clients refused, and associations ended early, because a limit was reached.
    pub refused_by_limit: u64,
}

/// Is notified of endpoints that are no longer in the pool.
pub(crate) trait EndpointObserver: Send + Sync {
    fn vanished(&self, endpoints: &[SocketAddr]);
}

/// How much of its limits a pool uses.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    pub(crate) connections: AtomicUsize,
    pub(crate) associations: AtomicUsize,
    pub(crate) held_bytes: AtomicUsize,
    pub(crate) refused: AtomicU64,
}

impl Pool {
    /// A pool without endpoints, without affinity, for everyone.
    pub fn new(limits: PoolLimits) -> Arc<Self> {
        Arc::new(Self::with_rotation(limits, Rotation::default()))
    }

    fn with_rotation(limits: PoolLimits, rotation: Rotation) -> Self {
        let affinity = Affinity::new(limits.max_sticky_clients);
        let state = State { rotation, affinity, health: Health::default(), admission: Admission::Everyone };
        let any_failed = AtomicBool::new(false);
        Self {
            state: Mutex::new(state),
            limits,
            usage: Usage::default(),
            any_failed,
            observers: Mutex::default(),
            served: Mutex::default(),
        }
    }

    /// Counts the clients that each endpoint serves from now on.
    pub fn count_served(&self) {
        self.served().get_or_insert_default();
    }

    /// How many clients each endpoint served since this was asked last: TCP connections whose first byte has passed or that
    /// ended, UDP associations.
    pub fn take_served(&self) -> BTreeMap<SocketAddr, u64> {
        self.served().as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(crate) fn note_served(&self, endpoint: SocketAddr) {
        if let Some(served) = &mut *self.served() {
            *served.entry(endpoint).or_default() += 1;
        }
    }

    fn served(&self) -> MutexGuard<'_, Option<BTreeMap<SocketAddr, u64>>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the endpoints. The same endpoints in any order change nothing, and round robin continues. Otherwise they are
    /// shuffled, round robin starts over, clients pinned to vanished endpoints are free again, and UDP associations to vanished
    /// endpoints end.
    pub fn set_endpoints(&self, endpoints: Vec<SocketAddr>) {
        let mut state = self.state();
        let Some(vanished) = state.rotation.replace(endpoints) else { return };
        if state.rotation.is_empty() {
            state.affinity.clear();
        } else {
            state.affinity.forget_endpoints(&vanished);
        }
        state.health.forget(&vanished);
        drop(state);
        self.notify(&vanished);
    }

    /// Turns client affinity on with this timeout, changes the timeout, or turns it off. In effect at once.
    pub fn set_affinity(&self, timeout: Option<Duration>) {
        self.state().affinity.set_timeout(timeout);
    }

    /// Sets which clients are served from now on. Open connections are not ended.
    pub fn set_admitted(&self, admission: Admission) {
        self.state().admission = admission;
    }

    /// The endpoint for a client's next connection.
    pub fn pick(&self, client: IpAddr, attempt: Attempt) -> Result<SocketAddr, PickError> {
        self.pick_at(Instant::now(), Request { client, attempt, tried: &[] })
    }

    pub(crate) fn pick_at(&self, now: Instant, request: Request<'_>) -> Result<SocketAddr, PickError> {
        let client = request.client.to_canonical();
        let mut state = self.state();
        let State { rotation, affinity, health, admission } = &mut *state;
        if !admission.admits(client) {
            return Err(PickError::NotAdmitted);
        }
        if request.attempt == Attempt::First
            && let Some(endpoint) = affinity.endpoint_of(client, now)
        {
            return Ok(endpoint);
        }
        let rank = |endpoint: SocketAddr| {
            2 * u8::from(request.tried.contains(&endpoint)) + u8::from(health.is_set_aside(endpoint, now))
        };
        let endpoint = rotation.next_by(rank).ok_or(PickError::NoEndpoints)?;
        health.picked(endpoint, now);
        affinity.pin(client, endpoint, now);
        Ok(endpoint)
    }

    /// Reports that an endpoint failed by itself: it could not be reached, or reset a connection before anything of the client
    /// reached it. After three times in a row it is set aside for some seconds: chosen only if there is no other that is not,
    /// so the last one serves however often it fails. Returns whether it is set aside now and was not before.
    pub fn report_failure(&self, endpoint: SocketAddr) -> bool {
        self.report_failure_at(endpoint, Instant::now())
    }

    pub(crate) fn report_failure_at(&self, endpoint: SocketAddr, now: Instant) -> bool {
        let mut state = self.state();
        let is_known = state.rotation.contains(endpoint);
        if is_known {
            self.any_failed.store(true, Ordering::Relaxed);
        }
        is_known && state.health.failed(endpoint, now)
    }

    /// Reports that an endpoint served a client.
    pub fn report_success(&self, endpoint: SocketAddr) {
        if self.any_failed.load(Ordering::Relaxed) {
            let mut state = self.state();
            state.health.succeeded(endpoint);
            self.any_failed.store(!state.health.is_empty(), Ordering::Relaxed);
        }
    }

    /// Forgets clients whose affinity has expired. Expiry is checked on use as well; this frees memory.
    pub fn purge_expired(&self) {
        self.state().affinity.purge_expired(Instant::now());
    }

    /// What it holds now.
    pub fn stats(&self) -> PoolStats {
        let state = self.state();
        PoolStats {
            endpoints: state.rotation.len(),
            set_aside: state.health.set_aside(Instant::now()),
            sticky_clients: state.affinity.len(),
            open_connections: self.usage.connections.load(Ordering::Relaxed),
            open_associations: self.usage.associations.load(Ordering::Relaxed),
            held_bytes: self.usage.held_bytes.load(Ordering::Relaxed),
            refused_by_limit: self.usage.refused.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn limits(&self) -> PoolLimits {
        self.limits
    }

    /// Notifies this observer of vanished endpoints for as long as it lives.
    pub(crate) fn observe(&self, observer: Weak<dyn EndpointObserver>) {
        let mut observers = self.observers.lock().unwrap_or_else(PoisonError::into_inner);
        observers.retain(|known| known.strong_count() > 0);
        observers.push(observer);
    }

    /// Not under the lock of the state: workers pick while they are being notified.
    fn notify(&self, vanished: &[SocketAddr]) {
        if !vanished.is_empty() {
            let observers = self.observers.lock().unwrap_or_else(PoisonError::into_inner).clone();
            for observer in observers.iter().filter_map(Weak::upgrade) {
                observer.vanished(vanished);
            }
        }
    }

    /// A panic elsewhere does not leave the state half changed: every change is made of steps that cannot fail.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("limits", &self.limits)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// What is asked for: an endpoint for this client, preferably none of those tried for the same connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) client: IpAddr,
    pub(crate) attempt: Attempt,
    pub(crate) tried: &'a [SocketAddr],
}
