//! A point in time as two clocks have it: one to reckon with, one to show.

use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Never jumps.
    pub steady: Instant,
    /// What people read.
    pub shown: Timestamp,
}

impl Moment {
    /// Now.
    pub fn now() -> Self {
        Self { steady: Instant::now(), shown: Timestamp::now() }
    }

    /// How long before another one this was.
    pub fn until(self, later: Self) -> Duration {
        later.steady.saturating_duration_since(self.steady)
    }
}

/// A time as Go writes it into JSON: RFC 3339 with as many decimals as it takes, in this zone.
pub fn written(time: Timestamp, zone: &TimeZone) -> String {
    let zoned = time.to_zoned(zone.clone());
    let decimals = match zoned.subsec_nanosecond() {
        0 => String::new(),
        nanoseconds => format!(".{nanoseconds:09}").trim_end_matches('0').to_owned(),
    };
    format!("{}{decimals}{}", zoned.strftime("%Y-%m-%dT%H:%M:%S"), offset(&zoned))
}

fn offset(zoned: &Zoned) -> String {
    match zoned.offset().seconds() {
        0 => "Z".to_owned(),
        seconds => {
            let sign = if seconds < 0 { '-' } else { '+' };
            let minutes = seconds.abs() / 60;
            format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_go_writes_them() {
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        let utc = TimeZone::UTC;
        assert_eq!(written(at("2026-11-15T19:28:08.043851760Z"), &utc), "2026-11-15T19:28:08.04385176Z");
        assert_eq!(written(at("2026-11-15T19:28:08Z"), &utc), "2026-11-15T19:28:08Z");
        let east = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(written(at("2026-11-15T19:28:08.5Z"), &east), "2026-11-15T21:28:08.5+02:00");
        let odd = TimeZone::fixed(jiff::tz::Offset::from_seconds(-(9 * 3600 + 1800)).expect("an offset"));
        assert_eq!(written(at("2026-11-15T19:28:08Z"), &odd), "2026-11-15T09:58:08-09:30");
    }
}
