//! A node that is never left alone: Services, endpoints and the node's zone change all the time, the API server goes away, the
//! rules are flushed, the proxy is killed; and clients connect all the while.
//!
//! The normal run is short; `make soak` takes half an hour. It ends with a report. No connection to a Service with a live
//! endpoint may fail, memory must stay flat, and at the end the kernel must have what the API server says.
#![allow(clippy::print_stdout, reason = "the test prints a report")]

mod attacks;
mod churn;
mod clients;
mod disruptions;
mod report;
mod site;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ferrule_testkit::{api_server, netns};

use churn::Churn;
use clients::Clients;
use disruptions::Disruptions;
use report::Report;
use site::Site;

/// A stop of everything that goes on, and a time for it.
struct Run {
    began: Instant,
    lasts: Duration,
    is_over: AtomicBool,
}

impl Run {
    fn new(lasts: Duration) -> Self {
        Self { began: Instant::now(), lasts, is_over: AtomicBool::new(false) }
    }

    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed) && self.began.elapsed() < self.lasts
    }

    /// Waits, but not beyond the end.
    fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        while self.goes_on() && Instant::now() < until {
            std::thread::park_timeout(
                until.saturating_duration_since(Instant::now()).min(Duration::from_millis(200)),
            );
        }
    }
}

fn seconds() -> u64 {
    std::env::var("SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(40)
}

#[test]
fn nothing_wears_out() {
    if !netns::or_skip() || !api_server::or_skip() {
        return;
    }
    let site = Site::new();
    let run = Run::new(Duration::from_secs(seconds()));
    let (mut churn, disruptions) = (Churn::new(), Disruptions::new(site.serve()));
    churn.fill(&site);
    site.until_served();
    let report = std::thread::scope(|scope| {
        let clients = Clients::start(scope, &site, &run);
        let churning = scope.spawn(|| churn.go_on(&site, &run));
        let disrupting = scope.spawn(|| disruptions.go_on(&site, &run));
        if attacks::are_wanted() {
            attacks::start(scope, &site, &run);
        }
        let changes = churning.join().expect("the churn");
        let disrupted = disrupting.join().expect("the disruptions");
        Report::new(&site, &run, clients.finished(), changes, disrupted)
    });
    report.print();
    report.check();
}
