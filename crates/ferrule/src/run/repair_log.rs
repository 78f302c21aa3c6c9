//! One line for each repair, and fewer if somebody goes on breaking things.

use std::time::{Duration, Instant};

use ferrule_model::IpFamily;
use tracing::warn;

use super::drift::Drift;

/// So many repairs are told as they come.
const TOLD_AT_ONCE: u32 = 20;
/// Further ones are told together, this far apart.
const TOGETHER: Duration = Duration::from_secs(10);

/// What was told, and what was not.
#[derive(Debug, Default)]
pub struct RepairLog {
    /// When the last line was written, and how many repairs there were in a row.
    last: Option<(Instant, u32)>,
    untold: u32,
}

impl RepairLog {
    /// Tells of a repair that wrote so much in this time.
    pub fn tell(&mut self, family: IpFamily, drift: Option<&Drift>, (written, took): (usize, Duration)) {
        let Some(others) = self.count(Instant::now()) else { return };
        let what = drift.map(|drift| drift.what.as_str());
        let by = drift.and_then(|drift| drift.by.as_deref()).unwrap_or("unknown");
        let others = (others > 0).then_some(others);
        warn!(%family, what, by, written, ?took, others, "Another program changed our rules, repaired");
    }

    /// Whether a repair is told now, and how many were not told before it.
    fn count(&mut self, now: Instant) -> Option<u32> {
        let (last, in_a_row) = self.last.unwrap_or((now, 0));
        let is_quiet = now.saturating_duration_since(last) >= TOGETHER;
        if in_a_row >= TOLD_AT_ONCE && !is_quiet {
            self.untold += 1;
            return None;
        }
        // After a quiet while the count begins anew, unless it was only quiet because nothing was told.
        let in_a_row = if is_quiet && self.untold == 0 { 1 } else { in_a_row.saturating_add(1) };
        self.last = Some((now, in_a_row));
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn somebody_who_goes_on_breaking_things_does_not_fill_the_log() {
        let mut log = RepairLog::default();
        let start = Instant::now();
        let told = (0..600).filter_map(|tenth| log.count(start + Duration::from_millis(100) * tenth));
        let told: Vec<u32> = told.collect();
        assert_eq!(told[..20], [0; 20]);
        assert_eq!(told.len(), 20 + 5, "one line each ten seconds of the minute");
        assert_eq!(told.iter().sum::<u32>() + 25 + log.untold, 600);
        log.untold = 0;
        assert_eq!(log.count(start + Duration::from_mins(5)), Some(0), "peace, and then one more");
        assert_eq!(log.count(start + Duration::from_mins(5)), Some(0));
    }
}
