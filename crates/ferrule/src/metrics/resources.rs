//! What became of lines and connections that there was no room for: counted elsewhere, taken over when somebody scrapes.

use prometheus::{IntCounter, IntCounterVec, Opts, Result};

use super::declaring::Declaring;

/// The metrics of what the process ran out of.
pub(super) struct Resources {
    dropped_lines: IntCounter,
    evicted: IntCounterVec,
}

impl Resources {
    pub(super) fn new(declare: &Declaring) -> Result<Self> {
        let dropped = Opts::new(
            "ferrule_log_lines_dropped_total",
            "Log lines dropped because nobody read them in time or they could not be written",
        );
        Ok(Self {
            dropped_lines: declare.declared(IntCounter::with_opts(dropped)?)?,
            evicted: declare.own_counters(
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
