//! What the loop tells and the servers show: health, metrics, health checks of Services, the configuration in effect.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ferrule_model::PerFamily;

use crate::events::Recorder;
use crate::health::{ProxyHealth, ServiceHealth};
use crate::metrics::Metrics;

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
}

impl Status {
    /// Nothing has happened yet.
    pub fn new(metrics: Metrics, health: ProxyHealth, events: Recorder) -> Self {
        Self {
            metrics,
            events,
            health: Mutex::new(health),
            services: Mutex::default(),
            configz: Mutex::default(),
            ready: AtomicBool::new(false),
        }
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

    /// Another configuration is in effect.
    pub fn set_configz(&self, page: String) {
        *self.configz.lock().unwrap_or_else(PoisonError::into_inner) = page;
    }

    /// Whether all rules were in the kernel once.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// All rules are in the kernel; says whether this is the first time.
    pub fn set_ready(&self) -> bool {
        !self.ready.swap(true, Ordering::Relaxed)
    }
}
