//! `/healthz`, `/livez` and, of our own, `/readyz`, on port 10256.

use std::sync::Arc;

use super::{Answer, Pages, Question};
use crate::health::{Moment, Report};
use crate::status::Status;

/// The pages of the health server.
pub struct HealthPages {
    status: Arc<Status>,
}

impl HealthPages {
    /// About this proxy.
    pub fn new(status: Arc<Status>) -> Self {
        Self { status }
    }
}

impl Pages for HealthPages {
    fn answer(&self, question: &Question) -> Answer {
        let (now, zone) = (Moment::now(), jiff::tz::TimeZone::system());
        match question.path.as_str() {
            "/healthz" => {
                let answer = reported(self.status.health().healthz(now, &zone));
                self.status.metrics.healthz_answered(answer.status);
                answer
            }
            "/livez" => {
                let answer = reported(self.status.health().livez(now, &zone));
                self.status.metrics.livez_answered(answer.status);
                answer
            }
            "/readyz" if self.status.is_ready() => Answer::text(200, "ok"),
            "/readyz" => Answer::text(503, "not all rules are in the kernel yet\n"),
            _ => Answer::not_found(),
        }
    }
}

fn reported(report: Report) -> Answer {
    Answer::json(if report.is_well { 200 } else { 503 }, report.body)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::events::Recorder;
    use crate::gates::Gates;
    use crate::metrics::Metrics;

    /// Row: server 8.8 #14
    #[test]
    fn answers_are_counted_by_code_and_livez_knows_nothing_of_the_node() {
        let metrics = Metrics::new(&Gates::default()).expect("every metric is declared once");
        let in_effect = ("{}".to_owned(), Duration::from_secs(30));
        let status = Arc::new(Status::new(metrics, in_effect, Recorder::nowhere()));
        let pages = HealthPages::new(Arc::clone(&status));
        let ask = |path| pages.answer(&Question::get(path));
        // Nobody has seen the Node yet.
        assert_eq!([ask("/healthz").status, ask("/healthz").status], [503, 503]);
        status.health().set_eligibility(crate::health::Eligibility::Yes);
        assert_eq!(ask("/healthz").status, 200);
        for _ in 0..4 {
            let answer = ask("/livez");
            assert!(answer.status == 200 && !String::from_utf8_lossy(&answer.body).contains("nodeEligible"));
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
