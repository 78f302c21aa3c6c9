//! The health of the proxy itself: a family is ill once something has waited too long to be programmed.

use std::time::Duration;

use ferrule_model::{IpFamily, PerFamily};
use jiff::tz::TimeZone;

use super::Moment;
use super::clock::written;

/// What Go writes for a time that never was.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// Whether load balancers should send traffic to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eligibility {
    /// The Node object is not known, is being deleted, or is about to be by the autoscaler.
    No,
    /// It is a node like any other.
    Yes,
}

/// The health of the proxy.
#[derive(Clone, Debug)]
pub struct ProxyHealth {
    /// How long something may wait.
    timeout: Duration,
    families: PerFamily<FamilyHealth>,
    eligibility: Eligibility,
}

#[derive(Clone, Copy, Debug, Default)]
struct FamilyHealth {
    last_updated: Option<Moment>,
    /// Since when something waits.
    pending_since: Option<Moment>,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whether that is good.
    pub is_well: bool,
    /// The text.
    pub body: String,
}

impl ProxyHealth {
    /// Nothing has happened yet, which counts as well; the Node is not known, which does not.
    pub fn new(timeout: Duration) -> Self {
        Self { timeout, families: PerFamily::default(), eligibility: Eligibility::No }
    }

    /// Something waits to be programmed.
    pub fn queued(&mut self, family: IpFamily, now: Moment) {
        let health = self.families.slot(family).get_or_insert_default();
        health.pending_since.get_or_insert(now);
    }

    /// Everything is programmed.
    pub fn updated(&mut self, family: IpFamily, now: Moment) {
        *self.families.slot(family) = Some(FamilyHealth { last_updated: Some(now), pending_since: None });
    }

    /// Takes over how long something may wait.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// What the Node object says.
    pub fn set_eligibility(&mut self, eligibility: Eligibility) {
        self.eligibility = eligibility;
    }

    /// Whether nothing has waited too long. A family that was never programmed does not count yet.
    pub fn is_well(&self, now: Moment) -> bool {
        self.counting().all(|(_, health)| self.is_family_well(health, now))
    }

    /// What `/livez` answers.
    pub fn livez(&self, now: Moment, zone: &TimeZone) -> Report {
        let is_well = self.is_well(now);
        Report { is_well, body: self.body(now, zone, (is_well, None)) }
    }

    /// What `/healthz` answers.
    pub fn healthz(&self, now: Moment, zone: &TimeZone) -> Report {
        let is_eligible = self.eligibility == Eligibility::Yes;
        let is_well = self.is_well(now) && is_eligible;
        Report { is_well, body: self.body(now, zone, (is_well, Some(is_eligible))) }
    }

    fn counting(&self) -> impl Iterator<Item = (IpFamily, &FamilyHealth)> {
        self.families.iter().filter(|(_, health)| health.last_updated.is_some())
    }

    fn is_family_well(&self, health: &FamilyHealth, now: Moment) -> bool {
        health.pending_since.is_none_or(|since| since.until(now) < self.timeout)
    }

    /// Key order and form are kube-proxy's to the byte: some compare them so.
    fn body(&self, now: Moment, zone: &TimeZone, (is_good, is_eligible): (bool, Option<bool>)) -> String {
        let time = |moment: Option<Moment>| moment.map_or(NEVER.to_owned(), |at| written(at.shown, zone));
        let newest = self.counting().filter_map(|(_, health)| health.last_updated).max_by_key(|at| at.steady);
        let last_updated = time(if is_good { Some(now) } else { newest });
        let current = time(Some(now));
        let eligible = is_eligible.map_or(String::new(), |is| format!("\"nodeEligible\":{is},"));
        let of_family = |(family, health): (IpFamily, &FamilyHealth)| {
            let updated = time(health.last_updated);
            let is_well = self.is_family_well(health, now);
            format!("\"{family}\":{{\"lastUpdated\":\"{updated}\",\"healthy\":{is_well}}}")
        };
        let families: Vec<String> = self.counting().map(of_family).collect();
        let status = match families.join(",") {
            none if none.is_empty() => String::new(),
            some => format!(",\"status\":{{{some}}}"),
        };
        let healthy = self.is_well(now);
        format!(
            "{{\"lastUpdated\":\"{last_updated}\",\"currentTime\":\"{current}\",{eligible}\"healthy\":{healthy}{status}}}"
        )
    }
}

#[cfg(test)]
mod tests;
