//! The table of the health server, with a clock that is moved by hand.

use std::time::Instant;

use super::*;
use IpFamily::{V4, V6};

struct Clock(Moment);

impl Clock {
    fn new() -> Self {
        let wall = "2026-11-15T19:28:08.5Z".parse().expect("a time");
        Self(Moment { monotonic: Instant::now(), wall })
    }

    fn pass(&mut self, seconds: u64) {
        let by = Duration::from_secs(seconds);
        self.0 = Moment { monotonic: self.0.monotonic + by, wall: self.0.wall + by };
    }
}

/// Health with a limit of ten seconds, on a node that may be used.
fn health() -> (ProxyHealth, Clock) {
    let mut health = ProxyHealth::new(Duration::from_secs(10));
    health.set_eligibility(Eligibility::Yes);
    (health, Clock::new())
}

fn answers(health: &ProxyHealth, clock: &Clock) -> (bool, bool) {
    let utc = TimeZone::UTC;
    (health.healthz(clock.0, &utc).is_healthy, health.livez(clock.0, &utc).is_healthy)
}

const WELL: (bool, bool) = (true, true);
const ILL: (bool, bool) = (false, false);

/// Row: server 8.8 #1-#5
/// Row: model H14-H16
#[test]
fn one_family_that_waits_too_long_is_ill() {
    let (mut health, mut clock) = health();
    assert_eq!(answers(&health, &clock), WELL, "nothing yet");
    health.updated(V4, clock.0);
    health.updated(V6, clock.0);
    assert_eq!(answers(&health, &clock), WELL);
    clock.pass(25);
    assert_eq!(answers(&health, &clock), WELL, "nothing is queued");
    health.queued(V4, clock.0);
    clock.pass(25);
    assert_eq!(answers(&health, &clock), ILL);
    let body = health.livez(clock.0, &TimeZone::UTC).body;
    assert!(body.starts_with(r#"{"lastUpdated":"2026-11-15T19:28:08.5Z","#), "the last real update: {body}");
    assert!(body.contains(r#""IPv4":{"lastUpdated":"2026-11-15T19:28:08.5Z","healthy":false}"#), "{body}");
    assert!(body.contains(r#""IPv6":{"lastUpdated":"2026-11-15T19:28:08.5Z","healthy":true}"#), "{body}");
    health.updated(V4, clock.0);
    health.updated(V6, clock.0);
    clock.pass(5);
    assert_eq!(answers(&health, &clock), WELL);
}

/// Row: server 8.8 #6-#9
#[test]
fn all_families_must_be_well() {
    let (mut health, mut clock) = health();
    for (queued, late) in [(vec![V6], "IPv6"), (vec![V4, V6], "both")] {
        health.updated(V4, clock.0);
        health.updated(V6, clock.0);
        for family in queued {
            health.queued(family, clock.0);
        }
        clock.pass(25);
        assert_eq!(answers(&health, &clock), ILL, "{late}");
    }
    health.updated(V4, clock.0);
    assert_eq!(answers(&health, &clock), ILL, "IPv6 is still late");
    health.updated(V6, clock.0);
    assert_eq!(answers(&health, &clock), WELL);
}

/// Row: server 8.8 #10-#13
/// Row: model H17
#[test]
fn a_node_that_is_leaving_is_well_but_not_to_be_used() {
    let (mut health, clock) = health();
    health.updated(V4, clock.0);
    for eligibility in [Eligibility::No, Eligibility::Yes, Eligibility::No] {
        health.set_eligibility(eligibility);
        let is_eligible = eligibility == Eligibility::Yes;
        assert_eq!(answers(&health, &clock), (is_eligible, true));
        let healthz = health.healthz(clock.0, &TimeZone::UTC).body;
        assert!(healthz.contains(&format!(r#""nodeEligible":{is_eligible},"healthy":true,"#)), "{healthz}");
        assert!(!health.livez(clock.0, &TimeZone::UTC).body.contains("nodeEligible"));
    }
}

#[test]
fn bodies_are_kube_proxys_to_the_byte() {
    let (mut health, mut clock) = health();
    let utc = TimeZone::UTC;
    let early = r#"{"lastUpdated":"2026-11-15T19:28:08.5Z","currentTime":"2026-11-15T19:28:08.5Z","nodeEligible":true,"healthy":true}"#;
    assert_eq!(health.healthz(clock.0, &utc).body, early);
    health.updated(V4, clock.0);
    clock.pass(2);
    let later = r#"{"lastUpdated":"2026-11-15T19:28:10.5Z","currentTime":"2026-11-15T19:28:10.5Z","healthy":true,"status":{"IPv4":{"lastUpdated":"2026-11-15T19:28:08.5Z","healthy":true}}}"#;
    assert_eq!(health.livez(clock.0, &utc).body, later);
    let unknown = ProxyHealth::new(Duration::from_secs(10)).healthz(clock.0, &utc).body;
    let never = r#"{"lastUpdated":"0001-01-01T00:00:00Z","currentTime":"2026-11-15T19:28:10.5Z","nodeEligible":false,"healthy":true}"#;
    assert_eq!(unknown, never);
}

/// Waiting begins with the first thing that waits, and the limit itself is too late.
#[test]
fn the_oldest_wait_counts() {
    let (mut health, mut clock) = health();
    health.updated(V4, clock.0);
    health.queued(V4, clock.0);
    clock.pass(6);
    health.queued(V4, clock.0);
    clock.pass(3);
    assert_eq!(answers(&health, &clock), WELL);
    clock.pass(1);
    assert_eq!(answers(&health, &clock), ILL);
}

/// The clock on the wall is set hours ahead or back; only time that passed counts.
#[test]
fn a_clock_that_is_set_makes_nobody_ill_and_heals_nobody() {
    for hours in [-5_i64, 5] {
        let (mut health, mut clock) = health();
        health.updated(V4, clock.0);
        health.queued(V4, clock.0);
        clock.0.wall += jiff::SignedDuration::from_hours(hours);
        clock.pass(5);
        assert_eq!(answers(&health, &clock), WELL, "{hours}");
        clock.pass(5);
        assert_eq!(answers(&health, &clock), ILL, "{hours}");
        health.updated(V4, clock.0);
        assert_eq!(answers(&health, &clock), WELL, "{hours}");
    }
}
