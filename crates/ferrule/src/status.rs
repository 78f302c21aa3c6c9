//! What the loop tells and the servers show: health, metrics, health checks of Services, the configuration in effect.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferrule_model::{IpFamily, PerFamily};
use sha2::{Digest as _, Sha256};

use crate::events::Recorder;
use crate::health::{ProxyHealth, ServiceHealth};
use crate::metrics::Metrics;

/// A family is ill once something has waited for this many sync periods.
const PERIODS_TO_ILLNESS: u32 = 2;

/// Shared between the loop and the servers.
pub struct Status {
    /// Every metric.
    pub metrics: Metrics,
    /// Events for the API server.
    pub events: Recorder,
    health: Mutex<ProxyHealth>,
    services: Mutex<PerFamily<ServiceHealth>>,
    configz: Mutex<String>,
    ready: AtomicBool,
    /// How many Service ports are left out.
    quarantined: Mutex<PerFamily<usize>>,
}

impl Status {
    /// Nothing has happened yet.
    pub fn new(metrics: Metrics, (configz, sync_period): (String, Duration), events: Recorder) -> Self {
        let status = Self {
            metrics,
            events,
            health: Mutex::new(ProxyHealth::new(sync_period * PERIODS_TO_ILLNESS)),
            services: Mutex::default(),
            configz: Mutex::default(),
            ready: AtomicBool::new(false),
            quarantined: Mutex::default(),
        };
        status.configured(configz, sync_period);
        status
    }

    /// The proxy's health.
    pub fn health(&self) -> MutexGuard<'_, ProxyHealth> {
        // What is behind these locks is never left half changed.
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What load balancers are told about Services.
    pub fn services(&self) -> MutexGuard<'_, PerFamily<ServiceHealth>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The page that shows the configuration in effect.
    pub fn configz(&self) -> String {
        self.configz.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// This configuration is in effect, shown so, with this sync period.
    pub fn configured(&self, configz: String, sync_period: Duration) {
        let digest = <[u8; 32]>::from(Sha256::digest(&configz));
        // Enough of a digest to tell configurations apart.
        let hash = digest.first_chunk().copied().map_or(0, u64::from_be_bytes);
        self.metrics.configured(&format!("{hash:016x}"));
        self.health().set_timeout(sync_period * PERIODS_TO_ILLNESS);
        *self.configz.lock().unwrap_or_else(PoisonError::into_inner) = configz;
    }

    /// Whether all rules were in the kernel once, and none is left out now.
    pub fn is_ready(&self) -> bool {
        let quarantined = self.quarantined.lock().unwrap_or_else(PoisonError::into_inner);
        self.ready.load(Ordering::Relaxed) && quarantined.iter().all(|(_, ports)| *ports == 0)
    }

    /// So many Service ports are left out, since their rules are refused.
    pub fn set_quarantined(&self, family: IpFamily, ports: usize) {
        self.quarantined.lock().unwrap_or_else(PoisonError::into_inner).set(family, ports);
    }

    /// All rules are in the kernel; says whether this is the first time.
    pub fn set_ready(&self) -> bool {
        !self.ready.swap(true, Ordering::Relaxed)
    }
}
