//! What came of it.

use std::time::Duration;

use crate::Run;
use crate::clients::{Attempts, Failure, FailureKind};
use crate::disruptions::{Disrupted, Flush};
use crate::site::Site;

/// Who asked while rules were missing may have been refused: that cannot be helped. A first packet that was lost must not be.
const AROUND_A_FLUSH: Duration = Duration::from_secs(1);
/// Memory that a process may have more at its end than when it was first looked at, in the second half, in MiB.
const GROWTH: f64 = 2.0;
/// What four clients that try a hundred times a second must do on the slowest of machines.
const TRIES_A_SECOND: usize = 20;

pub struct Report {
    lasted: Duration,
    tried: usize,
    failed: Vec<String>,
    refused_by_flush: usize,
    changes: usize,
    disrupted: Disrupted,
    syncs: f64,
    written: f64,
    drift: f64,
}

impl Report {
    /// Looks at the proxy for the last time, then starts another that has to look at every object in the kernel, and writes
    /// what is not as it should be.
    pub fn new(site: &Site, run: &Run, attempts: Attempts, changes: usize, mut disrupted: Disrupted) -> Self {
        let lasted = run.began.elapsed();
        site.server.start_api_server().map_err(|error| error.with_sources()).expect("the API server");
        site.until_all_is_seen();
        let is_excused =
            |failure: &Failure| disrupted.flushes.iter().any(|flush| is_caused_by(flush, failure));
        let (refused_by_flush, failed): (Vec<_>, Vec<_>) = attempts.failed.into_iter().partition(is_excused);
        let syncs = site.metric("kubeproxy_sync_proxy_rules_duration_seconds_count");
        let written = site.metric("ferrule_sync_objects_written_total");
        drop(disrupted.proxy.take().map(ferrule_testkit::Program::terminate));
        // A commit of somebody else's: from here on the proxy cannot know that its rules are as it left them.
        site.net.node().feed("nft", &["add", "table", "ip", "somebody-else"], "").expect("nft");
        let _proxy = site.serve();
        Self {
            lasted,
            tried: attempts.tried,
            failed: failed.iter().map(|failure| told(failure, run, &disrupted)).collect(),
            refused_by_flush: refused_by_flush.len(),
            changes,
            syncs,
            written,
            drift: site.metric("ferrule_initial_sync_objects_written"),
            disrupted,
        }
    }

    pub fn print(&self) {
        let (first, last, most) = self.memory();
        println!("| what | |\n|---|---|");
        println!("| lasted | {:.1} minutes |", self.lasted.as_secs_f64() / 60.0);
        println!("| changes the API server took | {} |", self.changes);
        println!("| restarts of the API server | {} |", self.disrupted.server_restarts);
        println!("| restarts of the proxy | {} |", self.disrupted.proxy_restarts);
        println!("| flushes of the rules by somebody else | {} |", self.disrupted.flushes.len());
        println!("| connections tried | {} |", self.tried);
        println!("| failed | {} |", self.failed.len());
        println!(
            "| refused or left without an answer because rules were flushed at that moment | {} |",
            self.refused_by_flush
        );
        println!("| syncs of the last process | {} |", self.syncs);
        println!("| objects written by the last process | {} |", self.written);
        println!(
            "| anonymous memory of the last process in MiB: first look, last, most | {first:.1}, {last:.1}, {most:.1} |"
        );
        println!("| objects not as they should be at the end | {} |", self.drift);
    }

    pub fn check(&self) {
        let at_least = TRIES_A_SECOND * usize::try_from(self.lasted.as_secs()).unwrap_or(usize::MAX);
        assert!(self.tried > at_least, "only {} connections were tried", self.tried);
        assert_eq!(self.failed, Vec::<String>::new(), "of {}", self.tried);
        assert!(self.drift == 0.0, "{} objects were not as they should be", self.drift);
        let (first, last, _) = self.memory();
        assert!(last < first + GROWTH, "memory grew from {first} to {last} MiB");
    }

    fn memory(&self) -> (f64, f64, f64) {
        let last = self.disrupted.memory.last().map_or(0, |(process, _)| *process);
        let looks: Vec<f64> = self
            .disrupted
            .memory
            .iter()
            .filter(|(process, _)| *process == last)
            .map(|(_, mib)| *mib)
            .collect();
        let most = looks.iter().copied().fold(0.0, f64::max);
        (looks.first().copied().unwrap_or(0.0), looks.last().copied().unwrap_or(0.0), most)
    }
}

/// A failure with its time, and how long it was after the last flush.
fn told(failure: &Failure, run: &Run, disrupted: &Disrupted) -> String {
    let at = failure.at;
    let since = disrupted.flushes.iter().rev().find(|flush| flush.ended < at).map(|flush| at - flush.ended);
    format!("{}, at {:?}, {since:?} after a flush", failure.what, at - run.began)
}

/// Who deletes the last chains for address translation makes the kernel translate nothing meanwhile, so that an answer that is on its
/// way then never arrives; who only flushes them does not.
fn is_caused_by(flush: &Flush, failure: &Failure) -> bool {
    let is_around = failure.at + AROUND_A_FLUSH > flush.began && failure.at < flush.ended;
    is_around
        && match failure.kind {
            FailureKind::Refused => true,
            FailureKind::Unanswered => flush.is_deletion,
            FailureKind::Lost => false,
        }
}
