//! Dropped log lines and evicted connections: counted where they happen, copied here at each scrape.

use prometheus::{IntCounter, IntCounterVec, Opts, Result};

use super::registrar::Registrar;

pub(super) struct Resources {
    dropped_lines: IntCounter,
    evicted: IntCounterVec,
}

impl Resources {
    pub(super) fn new(registrar: &Registrar) -> Result<Self> {
        let dropped = Opts::new(
            "ferrule_log_lines_dropped_total",
            "Log lines dropped because the queue was full or the write failed",
        );
        Ok(Self {
            dropped_lines: registrar.register(IntCounter::with_opts(dropped)?)?,
            evicted: registrar.own_counters(
                "ferrule_http_connections_evicted_total",
                "Connections closed to make room for new ones, by what their port is for",
                &["port"],
            )?,
        })
    }

    pub(super) fn dropped_lines(&self, since_start: u64) {
        raise(&self.dropped_lines, since_start);
    }

    pub(super) fn evicted(&self, port: &str, since_start: u64) {
        raise(&self.evicted.with_label_values(&[port]), since_start);
    }
}

fn raise(counter: &IntCounter, to: u64) {
    counter.inc_by(to.saturating_sub(counter.get()));
}
