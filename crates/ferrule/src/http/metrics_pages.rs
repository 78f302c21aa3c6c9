//! The pages of the metrics server, port 10249.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use jiff::Timestamp;

use super::connections::{Connections, PortKind};
use super::scrape::{Scraped, SharedScrape};
use super::{Answer, Method, Pages, Question, SlowPage, debug, flagz, pprof, statusz};
use crate::logging::LogHandle;
use crate::settings::ProxyMode;
use crate::status::Status;

/// What the pages tell that does not change.
#[derive(Debug)]
pub struct Facts {
    /// The mode.
    pub mode: ProxyMode,
    /// All flags with their values, sorted; none if the gate `ComponentFlagz` is off.
    pub flags: Option<Vec<(String, String)>>,
    /// Whether `/statusz` is served (gate `ComponentStatusz`).
    pub statusz: bool,
    /// Whether profiling is allowed.
    pub profiling: bool,
    /// When the program started.
    pub started: (Timestamp, Instant),
}

/// The pages of the metrics server.
pub struct MetricsPages {
    status: Arc<Status>,
    facts: Facts,
    log: LogHandle,
    connections: Arc<Connections>,
    scrape: SharedScrape,
    /// How often `/healthz` was answered well, for `/metrics/slis`.
    pings: Mutex<u64>,
}

impl MetricsPages {
    /// About this proxy.
    pub fn new(status: Arc<Status>, facts: Facts, log: LogHandle, connections: Arc<Connections>) -> Self {
        Self { status, facts, log, connections, scrape: SharedScrape::default(), pings: Mutex::new(0) }
    }

    fn healthz(&self, question: &Question) -> Answer {
        *self.pings.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        let excluded: BTreeSet<&str> = question.parameters("exclude").collect();
        if !question.has("verbose") {
            return Answer::text(200, "ok");
        }
        let ping = if excluded.contains("ping") { "[+]ping excluded: ok\n" } else { "[+]ping ok\n" };
        let mut text = ping.to_owned();
        let unknown: Vec<String> =
            excluded.iter().filter(|name| **name != "ping").map(|name| format!("{name:?}")).collect();
        if !unknown.is_empty() {
            let _ = writeln!(
                text,
                "warn: some health checks cannot be excluded: no matches for {}",
                unknown.join(",")
            );
        }
        Answer::text(200, format!("{text}healthz check passed\n"))
    }

    fn metrics(&self, question: &Question) -> Answer {
        let kind = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
        let make = || {
            let metrics = &self.status.metrics;
            metrics.log_lines_dropped(self.log.dropped());
            for kind in PortKind::ALL {
                metrics.connections_evicted(kind.label(), self.connections.evicted(kind));
            }
            metrics.scrape()
        };
        let answer = match self.scrape.get(question.accepts_gzip, Instant::now(), make) {
            Scraped::Plain(body) => Answer::plain(kind, 200, body),
            Scraped::Gzipped(body) => Answer::plain(kind, 200, body)
                .with("content-encoding", "gzip")
                .with("vary", "Accept-Encoding"),
        };
        answer.with("process-start-time-unix", self.facts.started.0.as_second().to_string())
    }

    fn slis(&self, question: &Question) -> Answer {
        let mut pings = self.pings.lock().unwrap_or_else(PoisonError::into_inner);
        if question.method == Method::Delete {
            *pings = 0;
            return Answer::text(200, "metrics reset\n");
        }
        let mut text = String::new();
        if *pings > 0 {
            text.push_str(
                "# HELP kubernetes_healthcheck [STABLE] Result of the last health check\n\
                 # TYPE kubernetes_healthcheck gauge\n\
                 kubernetes_healthcheck{name=\"ping\",type=\"healthz\"} 1\n\
                 # HELP kubernetes_healthchecks_total [STABLE] Results of all health checks\n\
                 # TYPE kubernetes_healthchecks_total counter\n",
            );
            let _ = writeln!(
                text,
                "kubernetes_healthchecks_total{{name=\"ping\",status=\"success\",type=\"healthz\"}} {pings}"
            );
        }
        text.push_str(
            "# HELP process_start_time_seconds When the process started, in seconds since the epoch\n\
             # TYPE process_start_time_seconds gauge\n",
        );
        let _ = writeln!(text, "process_start_time_seconds {}", self.facts.started.0.as_second());
        let kind = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
        Answer { headers: vec![("content-type", kind.to_owned())], ..Answer::text(200, text) }
    }
}

impl Pages for MetricsPages {
    fn answer(&self, question: &Question) -> Answer {
        let facts = &self.facts;
        match question.path.as_str() {
            "/healthz" => self.healthz(question),
            // Without the other header, as kube-proxy.
            "/healthz/ping" => Answer::plain("text/plain; charset=utf-8", 200, "ok"),
            "/metrics" => self.metrics(question),
            "/metrics/slis" => self.slis(question),
            "/proxyMode" => Answer::text(200, facts.mode.name()),
            "/configz" => Answer::json(200, self.status.configz()),
            "/flagz" => {
                facts.flags.as_deref().map_or_else(Answer::not_found, |flags| flagz::page(question, flags))
            }
            "/statusz" if facts.statusz => {
                statusz::page(question, facts.started.0, facts.started.1.elapsed())
            }
            _ if facts.profiling => debug::page(question, &self.log)
                .or_else(|| pprof::page(question))
                .unwrap_or_else(Answer::not_found),
            _ => Answer::not_found(),
        }
    }

    fn slow(&self, question: &Question) -> Option<SlowPage> {
        if self.facts.profiling { pprof::slow(question) } else { None }
    }
}

#[cfg(test)]
mod tests;
