//! Verifies the rules of iptables mode in the background, on a thread for each family.
//!
//! Only a difference that was read is reported; its correction is left in [`KnownRules`](super::KnownRules). A suspicion is not
//! enough: a missing chain may be about to be written, and a command that fails proves nothing about the tables.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ferrule_kernel::iptables::IptablesError;
use ferrule_kernel::port::XTables;
use ferrule_kernel::{sys, threads};
use ferrule_model::{IpFamily, ReportOnce, with_causes};

use super::canary::CanaryState;
use super::check_schedule::CheckSchedule;
use super::metrics::VERIFIED;
use super::verify::{Scope, Verified, Verifier};
use crate::metrics::Sample;
use crate::{Drift, LoopEnded, Note, RuleEvent, RuleEventSink, Severity};

/// A program that empties one table may empty the others: it gets this long.
const MAX_FLUSH_TIME: Duration = Duration::from_secs(5);
const FLUSH_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// A read that takes longer leaves memory behind that is worth giving back.
const LARGE_READ: Duration = Duration::from_millis(500);

/// Verifies one family's rules.
pub(super) struct RuleCheck<K> {
    pub family: IpFamily,
    /// What reads and compares them.
    pub verifier: Verifier<K>,
    pub schedule: Arc<CheckSchedule>,
    pub sink: Arc<dyn RuleEventSink>,
}

/// The state of a check that runs.
struct Running<K> {
    check: RuleCheck<K>,
    /// When all rules were last written or verified, or that was tried.
    verified: Option<Instant>,
    /// Why the rules cannot be verified.
    problem: ReportOnce<String>,
}

impl<K: XTables + Send + 'static> RuleCheck<K> {
    /// Starts a thread, which ends with the loop.
    pub(super) fn start(self) -> io::Result<()> {
        let name = format!("rule-check-{}", self.family);
        let mut running = Running { check: self, verified: None, problem: ReportOnce::default() };
        let work = move || while running.check_once().is_ok() {};
        threads::spawn(&name, work).map(drop)
    }
}

impl<K: XTables> Running<K> {
    fn check_once(&mut self) -> Result<(), LoopEnded> {
        // What happened before notifications were subscribed to is not left to the first period.
        if self.verified.is_some() || !self.check.verifier.known().is_check_wanted() {
            self.check.schedule.wait();
        }
        let scope = match self.flushed_tables() {
            Ok(Some(tables)) => Scope::Tables(tables),
            Ok(None) if self.is_due() => Scope::Everything,
            Ok(None) => return Ok(()),
            Err(error) => {
                self.report_problem(&error);
                return Ok(());
            }
        };
        let began = Instant::now();
        let verified = self.check.verifier.verify(&scope);
        // A read that did not even begin is tried again with the next period.
        if scope == Scope::Everything && !matches!(verified, Ok(Verified::NotNow)) {
            self.verified = Some(Instant::now());
        }
        if began.elapsed() > LARGE_READ {
            sys::trim_heap();
        }
        match verified {
            Ok(verified) => {
                self.problem.is_over();
                self.report(verified, &scope, began.elapsed())
            }
            Err(error) => {
                self.report_problem(&error);
                Ok(())
            }
        }
    }

    fn report(&self, verified: Verified, scope: &Scope, took: Duration) -> Result<(), LoopEnded> {
        let (family, sink) = (self.check.family, &self.check.sink);
        let note = |message| {
            let note = Note::new(Severity::Verbose, message).in_family(family);
            sink.note(note.with_detail(format!("{took:?}")));
        };
        let event = match verified {
            Verified::NotNow => return Ok(()),
            Verified::Outdated => {
                // Not after the usual interval: where rules are written all the time, none would ever be verified.
                self.check.verifier.known().want_check();
                note("Rules were written while they were verified, verifying again later");
                return Ok(());
            }
            Verified::Intact => {
                note("Rules verified");
                sink.record(&Sample::for_family(&VERIFIED, family, seconds_since_epoch()));
                return Ok(());
            }
            Verified::QuarantineMayEnd => RuleEvent::Verify(Some(family)),
            Verified::Drifted(correction) => {
                let what = match scope {
                    Scope::Everything => correction.to_string(),
                    Scope::Tables(tables) => emptied(tables),
                };
                self.check.verifier.known().put_correction(correction);
                RuleEvent::Drift(Drift { family, what, by: None })
            }
        };
        sink.send(event)
    }

    /// Whether it is time to verify every rule, or a verification was asked for.
    fn is_due(&mut self) -> bool {
        let known = self.check.verifier.known();
        let Some(verified) = self.verified else {
            // They have just been written.
            self.verified = Some(Instant::now());
            return known.is_check_wanted();
        };
        let (schedule, cost) = (&self.check.schedule, known.read_cost());
        let is_wanted = known.is_check_wanted();
        let interval = if is_wanted { schedule.recheck_interval(cost) } else { schedule.interval(cost) };
        verified.elapsed() >= interval
    }

    /// The tables that look flushed, once no further one is being flushed.
    fn flushed_tables(&mut self) -> Result<Option<Vec<&'static str>>, IptablesError> {
        let since = Instant::now();
        loop {
            match self.check.verifier.canary()? {
                None | Some(CanaryState::Intact) => return Ok(None),
                Some(CanaryState::Flushed) => return Ok(Some(ALL_TABLES.to_vec())),
                Some(CanaryState::PartlyFlushed(tables)) if since.elapsed() >= MAX_FLUSH_TIME => {
                    return Ok(Some(tables));
                }
                Some(CanaryState::PartlyFlushed(_)) => std::thread::park_timeout(FLUSH_POLL_INTERVAL),
            }
        }
    }

    fn report_problem(&mut self, error: &IptablesError) {
        let err = with_causes(error);
        // A lock that others hold is reported by the sync that has something to write.
        let is_expected = error.is_locked() || error.is_cancelled();
        let (severity, message) = if is_expected || !self.problem.is_new(err.clone()) {
            (Severity::Verbose, "Cannot verify the rules")
        } else {
            (Severity::Warning, "Cannot verify the rules, they are taken to be as they were written")
        };
        self.check.sink.note(Note::new(severity, message).in_family(self.check.family).with_detail(err));
    }
}

fn seconds_since_epoch() -> f64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0.0, |elapsed| elapsed.as_secs_f64().floor())
}

const ALL_TABLES: [&str; 3] = ["mangle", "nat", "filter"];

fn emptied(tables: &[&str]) -> String {
    if tables.len() == ALL_TABLES.len() {
        "all tables emptied".to_owned()
    } else {
        format!("tables {} emptied", tables.join(", "))
    }
}
