//! A point in time by two clocks: monotonic to compute with, wall clock to show.

use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Never jumps.
    pub monotonic: Instant,
    /// For people.
    pub wall: Timestamp,
}

impl Moment {
    /// Now.
    pub fn now() -> Self {
        Self { monotonic: Instant::now(), wall: Timestamp::now() }
    }

    /// The time from this moment to a later one.
    pub fn until(self, later: Self) -> Duration {
        later.monotonic.saturating_duration_since(self.monotonic)
    }
}

/// A time as Go writes it into JSON: RFC 3339 with as many decimals as needed, in this zone.
pub fn rfc3339(time: Timestamp, zone: &TimeZone) -> String {
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
        assert_eq!(rfc3339(at("2026-11-15T19:28:08.043851760Z"), &utc), "2026-11-15T19:28:08.04385176Z");
        assert_eq!(rfc3339(at("2026-11-15T19:28:08Z"), &utc), "2026-11-15T19:28:08Z");
        let east = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(rfc3339(at("2026-11-15T19:28:08.5Z"), &east), "2026-11-15T21:28:08.5+02:00");
        let odd = TimeZone::fixed(jiff::tz::Offset::from_seconds(-(9 * 3600 + 1800)).expect("an offset"));
        assert_eq!(rfc3339(at("2026-11-15T19:28:08Z"), &odd), "2026-11-15T09:58:08-09:30");
    }
}
