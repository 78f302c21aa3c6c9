//! The health of the proxy itself: a family is unhealthy once a change has been pending for too long.

use std::time::Duration;

use ferrule_model::{IpFamily, PerFamily};
use jiff::tz::TimeZone;

use super::Moment;
use super::clock::rfc3339;

/// Go's zero time.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// Whether load balancers should send traffic to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eligibility {
    /// The Node object is unknown, is being deleted, or will be by the autoscaler.
    No,
    /// The node stays in the cluster.
    Yes,
}

/// The health of the proxy.
#[derive(Clone, Debug)]
pub struct ProxyHealth {
    /// How long a change may be pending.
    timeout: Duration,
    families: PerFamily<FamilyHealth>,
    eligibility: Eligibility,
}

#[derive(Clone, Copy, Debug, Default)]
struct FamilyHealth {
    last_updated: Option<Moment>,
    /// Since when a change is pending.
    pending_since: Option<Moment>,
}

/// The response to a health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthReport {
    /// Decides the status code.
    pub is_healthy: bool,
    /// The JSON body.
    pub body: String,
}

/// What the JSON of a health check depends on.
#[derive(Clone, Copy)]
struct Page<'a> {
    now: Moment,
    zone: &'a TimeZone,
    is_healthy: bool,
    /// Only `/healthz` shows it.
    node_eligible: Option<bool>,
}

impl ProxyHealth {
    /// Before anything happened: healthy, but not eligible, since the Node is unknown.
    pub fn new(timeout: Duration) -> Self {
        Self { timeout, families: PerFamily::default(), eligibility: Eligibility::No }
    }

    /// A change is pending.
    pub fn queued(&mut self, family: IpFamily, now: Moment) {
        let health = self.families.slot(family).get_or_insert_default();
        health.pending_since.get_or_insert(now);
    }

    /// All changes are in the kernel.
    pub fn updated(&mut self, family: IpFamily, now: Moment) {
        *self.families.slot(family) = Some(FamilyHealth { last_updated: Some(now), pending_since: None });
    }

    /// Changes how long a change may be pending.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Updates the eligibility from the Node object.
    pub fn set_eligibility(&mut self, eligibility: Eligibility) {
        self.eligibility = eligibility;
    }

    /// Whether no change has been pending for too long. A family without a first sync does not count yet.
    pub fn is_healthy(&self, now: Moment) -> bool {
        self.synced_families().all(|(_, health)| self.is_family_healthy(health, now))
    }

    /// The report of `/livez`.
    pub fn livez(&self, now: Moment, zone: &TimeZone) -> HealthReport {
        let is_healthy = self.is_healthy(now);
        HealthReport { is_healthy, body: self.body(Page { now, zone, is_healthy, node_eligible: None }) }
    }

    /// The report of `/healthz`.
    pub fn healthz(&self, now: Moment, zone: &TimeZone) -> HealthReport {
        let is_eligible = self.eligibility == Eligibility::Yes;
        let is_healthy = self.is_healthy(now) && is_eligible;
        let page = Page { now, zone, is_healthy, node_eligible: Some(is_eligible) };
        HealthReport { is_healthy, body: self.body(page) }
    }

    fn synced_families(&self) -> impl Iterator<Item = (IpFamily, &FamilyHealth)> {
        self.families.iter().filter(|(_, health)| health.last_updated.is_some())
    }

    fn is_family_healthy(&self, health: &FamilyHealth, now: Moment) -> bool {
        health.pending_since.is_none_or(|since| since.until(now) < self.timeout)
    }

    /// Equal to kube-proxy's to the byte: some tools compare them so.
    fn body(&self, page: Page<'_>) -> String {
        let Page { now, zone, is_healthy: is_good, node_eligible } = page;
        let time = |moment: Option<Moment>| moment.map_or(NEVER.to_owned(), |at| rfc3339(at.wall, zone));
        let newest = self
            .synced_families()
            .filter_map(|(_, health)| health.last_updated)
            .max_by_key(|at| at.monotonic);
        let last_updated = time(if is_good { Some(now) } else { newest });
        let current = time(Some(now));
        let eligible = node_eligible.map_or(String::new(), |is| format!("\"nodeEligible\":{is},"));
        let of_family = |(family, health): (IpFamily, &FamilyHealth)| {
            let updated = time(health.last_updated);
            let is_healthy = self.is_family_healthy(health, now);
            format!("\"{family}\":{{\"lastUpdated\":\"{updated}\",\"healthy\":{is_healthy}}}")
        };
        let families: Vec<String> = self.synced_families().map(of_family).collect();
        let status = match families.join(",") {
            none if none.is_empty() => String::new(),
            some => format!(",\"status\":{{{some}}}"),
        };
        let healthy = self.is_healthy(now);
        format!(
            "{{\"lastUpdated\":\"{last_updated}\",\"currentTime\":\"{current}\",{eligible}\"healthy\":{healthy}{status}}}"
        )
    }
}

#[cfg(test)]
mod tests;
