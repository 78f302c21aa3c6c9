//! Whether the rules of iptables mode are still there, looked after on a thread for each family.
//!
//! Only a difference that was read is told to the loop, with what corrects it. A suspicion is none: a chain that cannot be seen may be
//! about to be written, and a program that fails says nothing about the tables.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::SyncSender as Sender;
use std::time::{Duration, Instant};

use ferrule_backends::iptables::{CanaryState, Scope, Verified, Verifier};
use ferrule_kernel::iptables::IptablesError;
use ferrule_kernel::kernel::XTables;
use ferrule_kernel::sys;
use ferrule_model::IpFamily;
use tracing::{info, warn};

use super::Event;
use super::check_schedule::CheckSchedule;
use super::drift::Drift;
use crate::causes::with_causes;
use crate::status::Status;
use crate::threads;

/// Who empties one table may empty the others; for so long that is waited for.
const FLUSH_PATIENCE: Duration = Duration::from_secs(5);
const FLUSH_STEP: Duration = Duration::from_millis(100);
/// Reading what takes longer than this leaves memory behind that is worth giving back.
const MANY_RULES: Duration = Duration::from_millis(500);

/// Looks after one family's rules.
pub struct RuleCheck<K> {
    /// The family.
    pub family: IpFamily,
    /// What reads and compares them.
    pub verifier: Verifier<K>,
    /// When.
    pub schedule: Arc<CheckSchedule>,
    /// Whom to tell.
    pub events: Sender<Event>,
    /// Where it is noted.
    pub status: Arc<Status>,
}

/// The state of one that runs.
struct Running<K> {
    check: RuleCheck<K>,
    /// When all rules were last written or verified, or that was tried.
    verified: Option<Instant>,
    /// What went wrong the last time: it is told once.
    problem: Option<String>,
}

/// The loop is gone.
struct Ended;

impl<K: XTables + Send + 'static> RuleCheck<K> {
    /// Begins, on a thread that ends with the loop.
    pub fn start(self) -> io::Result<()> {
        let name = format!("rule-check-{}", self.family);
        let mut running = Running { check: self, verified: None, problem: None };
        let work = move || while running.beat().is_ok() {};
        threads::spawn(&name, work).map(drop)
    }
}

impl<K: XTables> Running<K> {
    fn beat(&mut self) -> Result<(), Ended> {
        self.check.schedule.wait();
        let scope = match self.flushed_tables() {
            Ok(Some(tables)) => Scope::Tables(tables),
            Ok(None) if self.is_due() => Scope::Everything,
            Ok(None) => return Ok(()),
            Err(error) => {
                self.tell_problem(&error);
                return Ok(());
            }
        };
        let began = Instant::now();
        let verified = self.check.verifier.verify(&scope);
        // A read that did not even begin is tried again with the next period.
        if scope == Scope::Everything && !matches!(verified, Ok(Verified::NotNow)) {
            self.verified = Some(Instant::now());
        }
        if began.elapsed() > MANY_RULES {
            sys::give_back_freed_memory();
        }
        match verified {
            Ok(verified) => {
                self.problem = None;
                self.take(verified, &scope, began.elapsed())
            }
            Err(error) => {
                self.tell_problem(&error);
                Ok(())
            }
        }
    }

    fn take(&self, verified: Verified, scope: &Scope, took: Duration) -> Result<(), Ended> {
        let family = self.check.family;
        let event = match verified {
            Verified::NotNow => return Ok(()),
            Verified::Outdated => {
                // Not after the usual interval: where rules are written all the time, none would ever be verified.
                self.check.verifier.known().want_check();
                info!(v = 2, %family, ?took, "Rules were written while they were verified, tried again later");
                return Ok(());
            }
            Verified::Intact => {
                info!(v = 2, %family, ?took, "Rules verified");
                self.check.status.metrics.verified(family);
                return Ok(());
            }
            Verified::QuarantineMayEnd => Event::QuarantineMayEnd(family),
            Verified::Drifted(correction) => {
                let what = match scope {
                    Scope::Everything => correction.to_string(),
                    Scope::Tables(tables) => emptied(tables),
                };
                Event::Correct(Drift { family, what, by: None }, correction)
            }
        };
        self.check.events.send(event).map_err(|_| Ended)
    }

    /// Whether it is time to verify every rule, or somebody asked for it.
    fn is_due(&mut self) -> bool {
        let known = self.check.verifier.known();
        let Some(verified) = self.verified else {
            // They have just been written.
            self.verified = Some(Instant::now());
            return false;
        };
        let (schedule, cost) = (&self.check.schedule, known.read_cost());
        let is_wanted = known.is_check_wanted();
        let interval = if is_wanted { schedule.recheck_interval(cost) } else { schedule.interval(cost) };
        verified.elapsed() >= interval
    }

    /// The tables that look emptied, once nobody seems to be at it any more.
    fn flushed_tables(&mut self) -> Result<Option<Vec<&'static str>>, IptablesError> {
        let since = Instant::now();
        loop {
            match self.check.verifier.canary()? {
                None | Some(CanaryState::Intact) => return Ok(None),
                Some(CanaryState::Flushed) => return Ok(Some(ALL_TABLES.to_vec())),
                Some(CanaryState::PartlyFlushed(tables)) if since.elapsed() >= FLUSH_PATIENCE => {
                    return Ok(Some(tables));
                }
                Some(CanaryState::PartlyFlushed(_)) => std::thread::park_timeout(FLUSH_STEP),
            }
        }
    }

    fn tell_problem(&mut self, error: &IptablesError) {
        let (family, err) = (self.check.family, with_causes(error));
        // A lock that others hold is told by whoever has something to write.
        if error.is_locked() || error.is_cancelled() || self.problem.as_ref() == Some(&err) {
            info!(v = 2, %family, err, "Cannot verify the rules");
            return;
        }
        warn!(%family, err, "Cannot verify the rules, they are taken to be as they were written");
        self.problem = Some(err);
    }
}

const ALL_TABLES: [&str; 3] = ["mangle", "nat", "filter"];

fn emptied(tables: &[&str]) -> String {
    if tables.len() == ALL_TABLES.len() {
        "all tables emptied".to_owned()
    } else {
        format!("tables {} emptied", tables.join(", "))
    }
}
