//! `ferrule top`: Services by connections a second, from two readings of their counters and the time between them.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::client::Client;
use super::options::{Format, Given};
use super::table::{Color, Style, Table};
use super::{Found, ToolError, rendered};
use crate::questions::query::Parameters;
use crate::questions::{CountersAnswer, EndpointCounters, ServiceCounters};

const DEFAULT_INTERVAL: Duration = Duration::from_secs(2);
/// The proxy reads its counters no more often.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
const MAX_INTERVAL: Duration = Duration::from_hours(1);
/// Rows of a screen that is renewed; there is always more that is not worth looking at.
const SCREEN_ROWS: usize = 30;
/// To the corner, and away with what was there.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// What is shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TopAnswer {
    /// The time between the two readings.
    pub interval_seconds: f64,
    /// The busiest first.
    pub services: Vec<TopRow>,
}

/// A Service port.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TopRow {
    pub service: String,
    pub protocol: String,
    #[serde(flatten)]
    pub rates: Rates,
    pub endpoints: Vec<TopEndpoint>,
}

/// One of its endpoints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct TopEndpoint {
    pub endpoint: String,
    #[serde(flatten)]
    pub rates: Rates,
}

/// Rates between the readings, and the number so far.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rates {
    pub connections_per_second: f64,
    pub packets_per_second: Option<f64>,
    pub bytes_per_second: Option<f64>,
    pub connections: u64,
}

/// How often and how long it looks.
struct Pace {
    interval: Duration,
    /// How many tables; `None` until it is interrupted.
    count: Option<u32>,
}

/// Prints a table after each interval. On a terminal it renews the screen until it is interrupted, unless the number of tables is given.
pub(super) fn run(given: &Given) -> Result<Found, ToolError> {
    let pace = pace(given)?;
    let mut before = (Instant::now(), read(given)?);
    let mut shown = 0;
    loop {
        std::thread::park_timeout(pace.interval.saturating_sub(before.0.elapsed()));
        if before.0.elapsed() < pace.interval {
            continue;
        }
        let now = (Instant::now(), read(given)?);
        let answer = compared(&before.1, &now.1, now.0 - before.0);
        before = now;
        shown += 1;
        let limit = limit(given, &pace)?;
        let text = rendered(given, &answer, |style| table(&answer, (given, limit), style))?;
        if pace.count == Some(shown) {
            return Ok(Found { text, code: 0 });
        }
        if !show(&text, pace.count.is_none()) {
            return Ok(Found { text: String::new(), code: 0 });
        }
    }
}

/// Prints one of several answers, in place of the last one or below it; returns whether they can be written.
pub(super) fn show(text: &str, in_place: bool) -> bool {
    let clear = if in_place { CLEAR } else { "" };
    write!(io::stdout(), "{clear}{text}").and_then(|()| io::stdout().flush()).is_ok()
}

/// The time between two answers.
pub(super) fn interval_of(given: &Given) -> Result<Duration, ToolError> {
    given.value("interval").map_or(Ok(DEFAULT_INTERVAL), interval)
}

fn pace(given: &Given) -> Result<Pace, ToolError> {
    let interval = interval_of(given)?;
    let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number > 0);
    let count = match (given.value("count"), given.has("once")) {
        (None, true) => Some(1),
        (Some(text), false) => {
            let problem = || ToolError(format!("--count={text}: must be a whole number above 0"));
            Some(number(text).ok_or_else(problem)?)
        }
        (Some(_), true) => return Err(ToolError("name --count or --once".to_owned())),
        (None, false) => {
            let is_live = io::stdout().is_terminal() && matches!(given.format, Format::Text | Format::Wide);
            if is_live { None } else { Some(1) }
        }
    };
    Ok(Pace { interval, count })
}

/// Seconds, with or without an `s` behind them.
fn interval(text: &str) -> Result<Duration, ToolError> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse::<f64>().ok();
    let interval = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    interval.filter(|interval| (MIN_INTERVAL..=MAX_INTERVAL).contains(interval)).ok_or_else(|| {
        ToolError(format!("--interval={text}: must be a number of seconds between 1 and 3600"))
    })
}

fn limit(given: &Given, pace: &Pace) -> Result<usize, ToolError> {
    match given.value("limit") {
        None if pace.count.is_none() => Ok(SCREEN_ROWS),
        None => Ok(usize::MAX),
        Some(text) => text.parse().map_err(|_| ToolError(format!("--limit={text}: must be a whole number"))),
    }
}

fn read(given: &Given) -> Result<CountersAnswer, ToolError> {
    let mut parameters = Parameters::default();
    for name in ["namespace", "service"] {
        if let Some(value) = given.value(name) {
            parameters.set(name, value);
        }
    }
    let answer: CountersAnswer = Client::of(given).ask("counters", &parameters)?;
    if answer.enabled {
        return Ok(answer);
    }
    Err(ToolError(
        "this proxy counts no connections. Start it with --service-counters=all, or with --service-counters=labelled and the \
         label or annotation ferrule.dev/counters: \"true\" on the Services in question"
            .to_owned(),
    ))
}

/// The rates between two readings, the busiest Service first.
fn compared(before: &CountersAnswer, now: &CountersAnswer, time: Duration) -> TopAnswer {
    let seconds = time.as_secs_f64().max(f64::MIN_POSITIVE);
    let known: BTreeMap<_, _> =
        before.services.iter().map(|service| ((&service.service, &service.protocol), service)).collect();
    let row = |service: &ServiceCounters| {
        let was = known.get(&(&service.service, &service.protocol)).copied();
        service_row(was, service, seconds)
    };
    let mut services: Vec<TopRow> = now.services.iter().map(row).collect();
    services.sort_by(|one, other| {
        let by_rate = other.rates.connections_per_second.total_cmp(&one.rates.connections_per_second);
        by_rate.then_with(|| (&one.service, &one.protocol).cmp(&(&other.service, &other.protocol)))
    });
    TopAnswer { interval_seconds: seconds, services }
}

fn service_row(was: Option<&ServiceCounters>, now: &ServiceCounters, seconds: f64) -> TopRow {
    let known: BTreeMap<&str, &EndpointCounters> = was
        .into_iter()
        .flat_map(|was| &was.endpoints)
        .map(|endpoint| (endpoint.endpoint.as_str(), endpoint))
        .collect();
    let numbers = |service: &ServiceCounters| (service.connections, service.packets, service.bytes);
    let endpoint_numbers =
        |endpoint: &EndpointCounters| (endpoint.connections, endpoint.packets, endpoint.bytes);
    let endpoints = now.endpoints.iter().map(|endpoint| {
        let was = known.get(endpoint.endpoint.as_str()).map(|was| endpoint_numbers(was));
        let rates = rates(was, endpoint_numbers(endpoint), seconds);
        TopEndpoint { endpoint: endpoint.endpoint.clone(), rates }
    });
    TopRow {
        service: now.service.clone(),
        protocol: now.protocol.clone(),
        rates: rates(was.map(numbers), numbers(now), seconds),
        endpoints: endpoints.collect(),
    }
}

/// Connections, packets and bytes.
type Numbers = (u64, Option<u64>, Option<u64>);

/// What was not there before began at zero; what began again counts from there.
#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
fn rates(was: Option<Numbers>, now: Numbers, seconds: f64) -> Rates {
    let per_second = |was: u64, now: u64| now.checked_sub(was).unwrap_or(now) as f64 / seconds;
    let (connections, packets, bytes) = was.unwrap_or_default();
    let optional = |was: Option<u64>, now: Option<u64>| now.map(|now| per_second(was.unwrap_or(0), now));
    Rates {
        connections_per_second: per_second(connections, now.0),
        packets_per_second: optional(packets, now.1),
        bytes_per_second: optional(bytes, now.2),
        connections: now.0,
    }
}

fn table(answer: &TopAnswer, (given, limit): (&Given, usize), style: Style) -> String {
    let total: f64 = answer.services.iter().map(|row| row.rates.connections_per_second).sum();
    let color = if total > 0.0 { Color::Green } else { Color::Yellow };
    let summary = format!(
        "{total:.1} connections a second to {} Service ports, over {:.1} s",
        answer.services.len(),
        answer.interval_seconds
    );
    let with_endpoints = given.has("endpoints");
    let mut header = vec!["SERVICE", "PROTOCOL", "CONN/S", "CONNECTIONS"];
    if style.is_wide {
        header.extend(["PACKETS/S", "BYTES/S", "ENDPOINTS"]);
    }
    let mut table = Table::new(&header);
    for row in answer.services.iter().take(limit) {
        let count = row.endpoints.len().to_string();
        table.row(cells([&row.service, &row.protocol], row.rates, &count, style).iter().map(String::as_str));
        for endpoint in row.endpoints.iter().filter(|_| with_endpoints) {
            let name = format!("  {}", endpoint.endpoint);
            table.row(cells([&name, ""], endpoint.rates, "", style).iter().map(String::as_str));
        }
    }
    format!("{}\n{}", style.colored(color, &summary), table.text(""))
}

fn cells(names: [&str; 2], rates: Rates, endpoints: &str, style: Style) -> Vec<String> {
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
    let mut cells: Vec<String> = names.map(str::to_owned).to_vec();
    cells.push(rate(Some(rates.connections_per_second)));
    cells.push(rates.connections.to_string());
    if style.is_wide {
        cells.extend([rate(rates.packets_per_second), rate(rates.bytes_per_second), endpoints.to_owned()]);
    }
    cells
}

#[cfg(test)]
mod tests;
