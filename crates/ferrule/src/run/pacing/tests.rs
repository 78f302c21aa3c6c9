//! Times after which syncs happen.

use super::*;

const PACE: Pace = Pace {
    pause: Pause::Fixed(Duration::from_secs(1)),
    retry: Retry { first: Duration::from_secs(5), longest: Duration::from_secs(5) },
    at_least_every: Duration::from_secs(10),
};

/// A clock that is moved by hand, and the pacing it drives.
struct Driven {
    start: Instant,
    pacing: Pacing,
}

impl Driven {
    /// A sync has just ended, well or not.
    fn after_a_sync(pace: Pace, succeeded: bool) -> Self {
        let start = Instant::now();
        let mut driven = Self { start, pacing: Pacing::new(pace, start) };
        driven.pacing.want();
        driven.runs_at(0.0, succeeded);
        driven
    }

    fn at(&self, seconds: f64) -> Instant {
        self.start + Duration::from_secs_f64(seconds)
    }

    fn due(&self) -> f64 {
        self.pacing.due_at().saturating_duration_since(self.start).as_secs_f64()
    }

    fn runs_at(&mut self, seconds: f64, succeeded: bool) {
        let now = self.at(seconds);
        assert!(self.pacing.due_at() <= now, "due only at {}", self.due());
        self.pacing.begin();
        self.pacing.end(Duration::ZERO, now, succeeded);
    }
}

/// Row: server 8.11 #1
#[test]
fn the_first_sync_is_immediate() {
    let now = Instant::now();
    let mut pacing = Pacing::new(PACE, now);
    pacing.want();
    assert_eq!(pacing.due_at(), now);
}

/// Row: server 8.11 #2, 8.11 #3
#[test]
fn wishes_within_the_pause_make_one_sync_at_its_end() {
    let mut driven = Driven::after_a_sync(PACE, true);
    assert!(driven.due() > 1.0, "nothing is wanted, nothing happens when the pause is over");
    driven.pacing.want();
    driven.pacing.want();
    assert!((driven.due() - 1.0).abs() < 1e-9);
    driven.runs_at(1.0, true);
    assert!((driven.due() - 11.0).abs() < 1e-9, "both wishes were one sync");
}

/// Row: server 8.11 #4, 8.11 #10
#[test]
fn without_a_wish_there_is_a_sync_now_and_then() {
    let driven = Driven::after_a_sync(PACE, true);
    assert!((driven.due() - 10.0).abs() < 1e-9);
    let start = Instant::now();
    assert_eq!(Pacing::new(PACE, start).due_at(), start + PACE.at_least_every);
}

/// Row: server 8.11 #5, 8.11 #8
#[test]
fn a_failed_sync_is_tried_again() {
    let mut driven = Driven::after_a_sync(PACE, false);
    for round in 1..4 {
        let due = f64::from(round) * 5.0;
        assert!((driven.due() - due).abs() < 1e-9);
        driven.runs_at(due, false);
    }
}

/// Row: server 8.11 #6
#[test]
fn a_sync_that_was_wanted_and_succeeded_takes_the_place_of_the_retry() {
    let mut driven = Driven::after_a_sync(PACE, false);
    driven.pacing.want();
    driven.runs_at(2.0, true);
    assert!((driven.due() - 12.0).abs() < 1e-9);
}

/// Row: server 8.11 #7
#[test]
fn a_wish_after_a_failure_waits_for_the_pause() {
    let mut driven = Driven::after_a_sync(PACE, false);
    driven.pacing.want();
    assert!((driven.due() - 1.0).abs() < 1e-9);
    driven.runs_at(1.0, true);
    assert!((driven.due() - 11.0).abs() < 1e-9, "the retry is off");
}

/// Row: server 8.11 #9
#[test]
fn a_retry_does_not_come_before_the_pause_is_over() {
    let pace = Pace {
        pause: Pause::Fixed(Duration::from_secs(5)),
        retry: Retry { first: Duration::from_secs(1), longest: Duration::from_secs(1) },
        ..PACE
    };
    assert!((Driven::after_a_sync(pace, false).due() - 5.0).abs() < 1e-9);
}

#[test]
fn retries_come_less_and_less_often() {
    let retry = Retry { first: Duration::from_millis(200), longest: Duration::from_secs(1) };
    let mut driven = Driven::after_a_sync(Pace { pause: Pause::Fixed(Duration::ZERO), retry, ..PACE }, false);
    let mut times = Vec::new();
    for _ in 0..5 {
        let due = driven.due();
        times.push(format!("{due:.1}"));
        driven.runs_at(due, false);
    }
    assert_eq!(times, ["0.2", "0.6", "1.4", "2.4", "3.4"]);
}

#[test]
fn cheap_syncs_follow_each_other_at_once_and_dear_ones_wait() {
    let pause = Pause::ByCost { at_most: Duration::from_secs(1) };
    let start = Instant::now();
    let mut pacing = Pacing::new(Pace { pause, ..PACE }, start);
    let mut now = start;
    for _ in 0..40 {
        let began = now;
        now += Duration::from_millis(1);
        pacing.end(now - began, now, true);
        pacing.want();
        assert!(pacing.due_at() <= now, "a millisecond each is cheap");
    }
    let began = now;
    now += Duration::from_millis(60);
    pacing.end(now - began, now, true);
    let waits = pacing.due_at().saturating_duration_since(now);
    assert!(waits > Duration::from_millis(300) && waits < Duration::from_secs(1), "{waits:?}");
    pacing.end(Duration::from_secs(3), now + Duration::from_secs(3), true);
    let waits = pacing.due_at().saturating_duration_since(now + Duration::from_secs(3));
    assert_eq!(waits, Duration::from_secs(1), "never longer than kube-proxy");
    pacing.end(Duration::ZERO, now + Duration::from_mins(2), true);
    pacing.want();
    assert_eq!(pacing.due_at(), now + Duration::from_mins(2), "old debts are forgotten");
}

#[test]
fn repairs_without_end_come_with_a_pause() {
    let pause = Pause::ByCost { at_most: Duration::from_secs(1) };
    let mut driven = Driven::after_a_sync(Pace { pause, ..PACE }, true);
    let mut times = Vec::new();
    for _ in 0..5 {
        driven.pacing.want_repair();
        let due = driven.due();
        times.push(format!("{due:.1}"));
        driven.runs_at(due, true);
    }
    assert_eq!(times, ["0.0", "0.0", "0.0", "0.0", "0.5"]);
    driven.pacing.want();
    driven.runs_at(10.0, true);
    driven.pacing.want_repair();
    assert!((driven.due() - 10.0).abs() < 1e-9, "forgotten after a sync of another kind");
}

#[test]
fn a_repair_does_not_wait_for_a_long_pause() {
    let pace = Pace { pause: Pause::Fixed(Duration::from_secs(8)), ..PACE };
    let mut driven = Driven::after_a_sync(pace, true);
    driven.pacing.want();
    assert!((driven.due() - 8.0).abs() < 1e-9);
    driven.pacing.want_repair();
    assert!((driven.due() - 1.0).abs() < 1e-9);
}

#[test]
fn what_waits_for_a_lock_is_tried_again_sooner_but_not_within_the_pause() {
    let mut driven = Driven::after_a_sync(PACE, false);
    driven.pacing.retry_by(driven.at(2.0));
    assert!((driven.due() - 2.0).abs() < 1e-6);
    driven.pacing.retry_by(driven.at(0.2));
    assert!((driven.due() - 1.0).abs() < 1e-6);
    driven.pacing.retry_by(driven.at(9.0));
    assert!((driven.due() - 1.0).abs() < 1e-6, "a later one changes nothing");
}
