//! The pages of the metrics port, 10249.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ferrule_backends::counters::SharedReading;
use ferrule_config::settings::StatusPage;
use ferrule_plan::ProxyMode;
use jiff::Timestamp;

use super::connections::{Connections, PortKind};
use super::scrape::{ScrapeBody, ScrapeCache};
use super::{
    BlockingResponse, EventStream, Handler, InspectHandler, Method, Request, Response, debug, flagz, pprof,
    status_page, statusz,
};
use crate::logging::LogHandle;
use crate::run::Inspector;
use crate::status::Status;

/// What the pages show that does not change.
pub struct PageOptions {
    /// Shown by `/proxyMode`.
    pub mode: ProxyMode,
    /// All flags with their values, sorted; none if the gate `ComponentFlagz` is off.
    pub flags: Option<Vec<(String, String)>>,
    /// Whether `/statusz` is served (gate `ComponentStatusz`).
    pub statusz: bool,
    /// Whether profiling is allowed.
    pub profiling: bool,
    /// When the process started, by both clocks.
    pub started: (Timestamp, Instant),
    /// Asks the loop, for `/ferrule/v1/…`.
    pub inspector: Option<Inspector>,
    /// Whether there is a page for people.
    pub status_page: StatusPage,
    /// Connections of Services, if they are counted.
    pub counters: Option<Arc<SharedReading>>,
}

/// Handles requests to the metrics port.
pub struct MetricsHandler {
    status: Arc<Status>,
    options: PageOptions,
    log: LogHandle,
    connections: Arc<Connections>,
    scrape: ScrapeCache,
    inspect: Option<InspectHandler>,
    /// Successful `/healthz` responses, for `/metrics/slis`.
    pings: Mutex<u64>,
}

impl MetricsHandler {
    /// Reports this status.
    pub fn new(
        status: Arc<Status>,
        options: PageOptions,
        log: LogHandle,
        connections: Arc<Connections>,
    ) -> Self {
        let counters = options.counters.clone();
        let inspect = options.inspector.clone().map(|inspector| {
            InspectHandler::on_network(inspector, Arc::clone(&status.history)).with_counters(counters)
        });
        let (scrape, pings) = (ScrapeCache::default(), Mutex::new(0));
        Self { status, options, log, connections, scrape, inspect, pings }
    }

    fn healthz(&self, request: &Request) -> Response {
        *self.pings.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        let excluded: BTreeSet<&str> = request.parameters("exclude").collect();
        if !request.has("verbose") {
            return Response::text(200, "ok");
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
        Response::text(200, format!("{text}healthz check passed\n"))
    }

    fn metrics(&self, request: &Request) -> Response {
        let kind = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
        let make = || {
            let metrics = &self.status.metrics;
            metrics.log_lines_dropped(self.log.dropped());
            for kind in PortKind::ALL {
                metrics.connections_evicted(kind.label(), self.connections.evicted(kind));
            }
            metrics.scrape()
        };
        let response = match self.scrape.get(request.accepts_gzip, Instant::now(), make) {
            ScrapeBody::Plain(body) => Response::sniffable(kind, 200, body),
            ScrapeBody::Gzipped(body) => Response::sniffable(kind, 200, body)
                .with("content-encoding", "gzip")
                .with("vary", "Accept-Encoding"),
        };
        response.with("process-start-time-unix", self.options.started.0.as_second().to_string())
    }

    fn slis(&self, request: &Request) -> Response {
        let mut pings = self.pings.lock().unwrap_or_else(PoisonError::into_inner);
        if request.method == Method::Delete {
            *pings = 0;
            return Response::text(200, "metrics reset\n");
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
        let _ = writeln!(text, "process_start_time_seconds {}", self.options.started.0.as_second());
        let kind = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
        Response { headers: vec![("content-type", kind.to_owned())], ..Response::text(200, text) }
    }
}

impl Handler for MetricsHandler {
    fn handle(&self, request: &Request) -> Response {
        let options = &self.options;
        match request.path.as_str() {
            "/healthz" => self.healthz(request),
            // kube-proxy sends no nosniff header here.
            "/healthz/ping" => Response::sniffable("text/plain; charset=utf-8", 200, "ok"),
            "/metrics" => self.metrics(request),
            "/metrics/slis" => self.slis(request),
            "/proxyMode" => Response::text(200, options.mode.name()),
            "/configz" => Response::json(200, self.status.configz()),
            "/flagz" => {
                options.flags.as_deref().map_or_else(Response::not_found, |flags| flagz::page(request, flags))
            }
            "/statusz" if options.statusz => {
                statusz::page(request, options.started.0, options.started.1.elapsed())
            }
            path if options.status_page == StatusPage::Served && status_page::is_below(path) => {
                status_page::page(request)
            }
            _ if options.profiling => debug::page(request, &self.log)
                .or_else(|| pprof::page(request))
                .unwrap_or_else(Response::not_found),
            _ => Response::not_found(),
        }
    }

    fn events(&self, request: &Request) -> Option<Result<EventStream, Response>> {
        self.inspect.as_ref().filter(|_| self.options.status_page == StatusPage::Served)?.events(request)
    }

    fn handle_blocking(&self, request: &Request) -> Option<BlockingResponse> {
        let inspected = self.inspect.as_ref().and_then(|handler| handler.handle_blocking(request));
        inspected.or_else(|| if self.options.profiling { pprof::blocking(request) } else { None })
    }
}

#[cfg(test)]
mod tests;
