//! Whether the API server can be reached, shared by all requests on the connection.
//!
//! While that is not known, one request goes first, the probe, and the others wait for its outcome: each would open a
//! connection of its own otherwise. If the probe fails, those who waited fail with it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use super::ApiError;
use super::connector::HttpClient;

/// The state of the connection.
#[derive(Debug, Default)]
pub(super) struct Link {
    state: Mutex<State>,
    /// Notified when a probe ends and when the server becomes reachable.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    reachability: Reachability,
    /// `None` if it must be rebuilt, from the current certificates and credentials.
    client: Option<HttpClient>,
    probes: u64,
}

#[derive(Debug, Default)]
enum Reachability {
    /// Nothing was sent yet, or a probe ended without an outcome.
    #[default]
    Unknown,
    /// The probe with this number is on its way.
    Probing(u64),
    Up,
    /// The last request failed like this.
    Down(ApiError),
}

/// The right to send one request. Dropping it ends the probe, if it was one.
#[derive(Debug)]
pub(super) struct Permit<'a> {
    link: &'a Link,
    probe: Option<u64>,
}

impl Link {
    /// Waits while another request is probing; fails if that one fails.
    pub(super) async fn enter(&self) -> Result<Permit<'_>, ApiError> {
        let mut has_waited = false;
        loop {
            // Created before the state is read, so that no change in between is missed.
            let changed = self.changed.notified();
            if let Some(result) = self.try_enter(has_waited) {
                return result;
            }
            changed.await;
            has_waited = true;
        }
    }

    fn try_enter(&self, has_waited: bool) -> Option<Result<Permit<'_>, ApiError>> {
        let mut state = self.lock();
        match &state.reachability {
            Reachability::Probing(_) => None,
            Reachability::Up => Some(Ok(Permit { link: self, probe: None })),
            Reachability::Down(error) if has_waited => Some(Err(error.clone())),
            Reachability::Unknown | Reachability::Down(_) => {
                state.probes = state.probes.wrapping_add(1);
                state.reachability = Reachability::Probing(state.probes);
                Some(Ok(Permit { link: self, probe: Some(state.probes) }))
            }
        }
    }

    /// The server answered.
    pub(super) fn set_up(&self) {
        let before = std::mem::replace(&mut self.lock().reachability, Reachability::Up);
        if !matches!(before, Reachability::Up) {
            self.changed.notify_waiters();
        }
    }

    /// Waits until a request of anyone succeeds, at most for `time`.
    pub(super) async fn recovered_within(&self, time: Duration) {
        let recovered = async {
            let mut changed = self.changed.notified();
            loop {
                changed.await;
                changed = self.changed.notified();
                if matches!(self.lock().reachability, Reachability::Up) {
                    return;
                }
            }
        };
        // The caller retries in either case.
        let _ = timeout(time, recovered).await;
    }

    /// The URL of the server as the current client has it.
    pub(super) fn base_url(&self) -> Option<String> {
        self.lock().client.as_ref().map(|client| client.base.clone())
    }

    pub(super) fn client(&self) -> Option<HttpClient> {
        self.lock().client.clone()
    }

    /// Keeps a client for later requests. If two were built at the same time, both callers get the first.
    pub(super) fn keep_client(&self, client: HttpClient) -> HttpClient {
        self.lock().client.get_or_insert(client).clone()
    }

    /// Has the next request build a new client: certificates or credentials may have been rotated.
    pub(super) fn forget_client(&self) {
        self.lock().client = None;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit<'_> {
    /// The server did not answer.
    pub(super) fn set_down(&self, error: ApiError) {
        let mut state = self.link.lock();
        // Another request is finding out already: its outcome is the newer one.
        if matches!(state.reachability, Reachability::Probing(probe) if Some(probe) != self.probe) {
            return;
        }
        state.reachability = Reachability::Down(error);
        drop(state);
        self.link.changed.notify_waiters();
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let Some(own) = self.probe else { return };
        let mut state = self.link.lock();
        if matches!(state.reachability, Reachability::Probing(probe) if probe == own) {
            state.reachability = Reachability::Unknown;
            drop(state);
            self.link.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests;
