//! `/healthz`, `/livez` and, of our own, `/readyz`, on port 10256.

use std::sync::Arc;

use super::{Handler, Request, Response};
use crate::health::{HealthReport, Moment};
use crate::status::Status;

/// Handles requests to the health port.
pub struct HealthHandler {
    status: Arc<Status>,
}

impl HealthHandler {
    /// Reports this status.
    pub fn new(status: Arc<Status>) -> Self {
        Self { status }
    }
}

impl Handler for HealthHandler {
    fn handle(&self, request: &Request) -> Response {
        let (now, zone) = (Moment::now(), jiff::tz::TimeZone::system());
        match request.path.as_str() {
            "/healthz" => {
                let response = respond(self.status.health().healthz(now, &zone));
                self.status.metrics.healthz_answered(response.status);
                response
            }
            "/livez" => {
                let response = respond(self.status.health().livez(now, &zone));
                self.status.metrics.livez_answered(response.status);
                response
            }
            "/readyz" if self.status.is_ready() => Response::text(200, "ok"),
            "/readyz" => Response::text(503, "not all rules are in the kernel yet\n"),
            _ => Response::not_found(),
        }
    }
}

fn respond(report: HealthReport) -> Response {
    Response::json(if report.is_healthy { 200 } else { 503 }, report.body)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ferrule_config::gates::Gates;

    use super::*;
    use crate::events::Recorder;
    use crate::metrics::Metrics;

    /// Row: server 8.8 #14
    #[test]
    fn answers_are_counted_by_code_and_livez_knows_nothing_of_the_node() {
        let metrics = Metrics::new(&Gates::default(), &[]).expect("every metric is declared once");
        let status = Status::new(metrics, Recorder::disabled(), "{}".to_owned(), Duration::from_secs(30));
        let status = Arc::new(status);
        let handler = HealthHandler::new(Arc::clone(&status));
        let ask = |path| handler.handle(&Request::get(path));
        // Nobody has seen the Node yet.
        assert_eq!([ask("/healthz").status, ask("/healthz").status], [503, 503]);
        status.health().set_eligibility(crate::health::Eligibility::Yes);
        assert_eq!(ask("/healthz").status, 200);
        for _ in 0..4 {
            let response = ask("/livez");
            assert!(
                response.status == 200 && !String::from_utf8_lossy(&response.body).contains("nodeEligible")
            );
        }
        let scraped = String::from_utf8(status.metrics.scrape()).expect("text");
        for line in [
            "kubeproxy_proxy_healthz_total{code=\"200\"} 1",
            "kubeproxy_proxy_healthz_total{code=\"503\"} 2",
            "kubeproxy_proxy_livez_total{code=\"200\"} 4",
        ] {
            assert!(scraped.contains(line), "{line} is not in\n{scraped}");
        }
    }
}
