//! One line for each repair, and fewer if another program goes on breaking things.

use std::time::{Duration, Instant};

use ferrule_backends::Drift;
use ferrule_model::IpFamily;
use tracing::warn;

/// This many repairs in a row are logged one by one.
const MAX_BURST: u32 = 20;
/// Further ones are logged together, this far apart.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(10);

/// Which repairs were logged.
#[derive(Debug, Default)]
pub(super) struct RepairLog {
    /// When the last line was written, and how many repairs there were in a row.
    last: Option<(Instant, u32)>,
    unlogged: u32,
}

impl RepairLog {
    /// Logs a repair that wrote so many objects in this time.
    pub(super) fn log(&mut self, family: IpFamily, drift: Option<&Drift>, written: usize, took: Duration) {
        let Some(others) = self.count(Instant::now()) else { return };
        let what = drift.map(|drift| drift.what.as_str());
        let by = drift.and_then(|drift| drift.by.as_deref()).unwrap_or("unknown");
        let others = (others > 0).then_some(others);
        warn!(%family, what, by, written, ?took, others, "Another program changed our rules, repaired");
    }

    /// Whether a repair is logged now, and how many before it were not.
    fn count(&mut self, now: Instant) -> Option<u32> {
        let (last, in_a_row) = self.last.unwrap_or((now, 0));
        let is_quiet = now.saturating_duration_since(last) >= SUMMARY_INTERVAL;
        if in_a_row >= MAX_BURST && !is_quiet {
            self.unlogged += 1;
            return None;
        }
        // After a quiet while the count starts from zero, unless it was only quiet because nothing was logged.
        let in_a_row = if is_quiet && self.unlogged == 0 { 1 } else { in_a_row.saturating_add(1) };
        self.last = Some((now, in_a_row));
        Some(std::mem::take(&mut self.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_goes_on_breaking_things_does_not_fill_the_log() {
        let mut log = RepairLog::default();
        let start = Instant::now();
        let logged = (0..600).filter_map(|tenth| log.count(start + Duration::from_millis(100) * tenth));
        let logged: Vec<u32> = logged.collect();
        assert_eq!(logged[..20], [0; 20]);
        assert_eq!(logged.len(), 20 + 5, "one line each ten seconds of the minute");
        assert_eq!(logged.iter().sum::<u32>() + 25 + log.unlogged, 600);
        log.unlogged = 0;
        assert_eq!(log.count(start + Duration::from_mins(5)), Some(0), "peace, and then one more");
        assert_eq!(log.count(start + Duration::from_mins(5)), Some(0));
    }
}
