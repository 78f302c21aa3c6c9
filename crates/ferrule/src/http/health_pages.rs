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
