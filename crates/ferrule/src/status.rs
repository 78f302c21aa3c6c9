//! What the loop reports and the HTTP servers show: health, metrics, health checks of Services, the configuration in effect.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferrule_model::{IpFamily, PerFamily};
use sha2::{Digest as _, Sha256};

use crate::events::Recorder;
use crate::health::{ProxyHealth, ServiceHealth};
use crate::history::History;
use crate::metrics::Metrics;

/// A family is unhealthy once a change has been pending for this many sync periods.
const UNHEALTHY_AFTER_PERIODS: u32 = 2;

/// Shared between the loop and the servers.
pub struct Status {
    /// Every metric.
    pub metrics: Metrics,
    /// Events for the API server.
    pub events: Recorder,
    /// What happened lately.
    pub history: Arc<History>,
    health: Mutex<ProxyHealth>,
    services: Mutex<PerFamily<ServiceHealth>>,
    configz: Mutex<String>,
    ready: AtomicBool,
    /// Service ports in quarantine.
    quarantined: Mutex<PerFamily<usize>>,
}

impl Status {
    /// The status before the first sync.
    pub fn new(metrics: Metrics, events: Recorder, configz: String, sync_period: Duration) -> Self {
        let status = Self {
            metrics,
            events,
            history: Arc::default(),
            health: Mutex::new(ProxyHealth::new(sync_period * UNHEALTHY_AFTER_PERIODS)),
            services: Mutex::default(),
            configz: Mutex::default(),
            ready: AtomicBool::new(false),
            quarantined: Mutex::default(),
        };
        status.configured(configz, sync_period);
        status
    }

    /// The health of the proxy.
    pub fn health(&self) -> MutexGuard<'_, ProxyHealth> {
        // No panic can happen in the middle of a change.
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The health checks of Services.
    pub fn services(&self) -> MutexGuard<'_, PerFamily<ServiceHealth>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The body of `/configz`.
    pub fn configz(&self) -> String {
        self.configz.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A configuration with this `/configz` and sync period is in effect.
    pub fn configured(&self, configz: String, sync_period: Duration) {
        let digest = <[u8; 32]>::from(Sha256::digest(&configz));
        // Enough of the digest to distinguish configurations.
        let hash = digest.first_chunk().copied().map_or(0, u64::from_be_bytes);
        self.metrics.configured(&format!("{hash:016x}"));
        self.health().set_timeout(sync_period * UNHEALTHY_AFTER_PERIODS);
        *self.configz.lock().unwrap_or_else(PoisonError::into_inner) = configz;
    }

    /// Whether all rules were in the kernel once, and no Service port is in quarantine now.
    pub fn is_ready(&self) -> bool {
        let quarantined = self.quarantined.lock().unwrap_or_else(PoisonError::into_inner);
        self.ready.load(Ordering::Relaxed) && quarantined.iter().all(|(_, ports)| *ports == 0)
    }

    /// Sets the number of Service ports in quarantine.
    pub fn set_quarantined(&self, family: IpFamily, ports: usize) {
        self.quarantined.lock().unwrap_or_else(PoisonError::into_inner).set(family, ports);
    }

    /// All rules are in the kernel. Returns whether this is the first time.
    pub fn set_ready(&self) -> bool {
        !self.ready.swap(true, Ordering::Relaxed)
    }
}
