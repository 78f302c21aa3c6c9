//! `/statusz`: start time and version of this process.

use std::time::Duration;

use ferrule_config::cli::version::{FERRULE, KUBERNETES};
use jiff::Timestamp;

use super::zpages::{Form, form, object_page, text_page};
use super::{Request, Response};

/// The pages that are listed.
const PATHS: [&str; 5] = ["/configz", "/flagz", "/healthz", "/metrics", "/proxyMode"];

/// The page of a process that started at `started` and has been up for `up`.
pub fn page(request: &Request, started: Timestamp, up: Duration) -> Response {
    match form(request, "Statusz") {
        Ok(Form::Text) => text_page("statusz", pairs(started, up)),
        Ok(Form::Object { format, version }) => object_page(format, version, "Statusz", object(started, up)),
        Err(not_acceptable) => not_acceptable,
    }
}

fn pairs(started: Timestamp, up: Duration) -> Vec<(String, String)> {
    let seconds = up.as_secs();
    let shown_up = format!("{} hr {:02} min {:02} sec", seconds / 3600, seconds / 60 % 60, seconds % 60);
    let started =
        started.to_zoned(jiff::tz::TimeZone::system()).strftime("%a %b %e %H:%M:%S %Z %Y").to_string();
    let pairs = [
        ("Started", started),
        ("Up", shown_up),
        ("Go version", runtime()),
        ("Binary version", KUBERNETES.tag().trim_start_matches('v').to_owned()),
        ("Emulation version", emulated()),
        ("Paths", PATHS.join(" ")),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

fn object(started: Timestamp, up: Duration) -> serde_json::Map<String, serde_json::Value> {
    let value = serde_json::json!({
        "startTime": started.to_string(),
        "uptimeSeconds": up.as_secs(),
        "goVersion": runtime(),
        "binaryVersion": KUBERNETES.tag().trim_start_matches('v'),
        "emulationVersion": emulated(),
        "paths": PATHS,
    });
    match value {
        serde_json::Value::Object(object) => object,
        _ => serde_json::Map::new(),
    }
}

/// There is no Go; the field names what there is instead.
fn runtime() -> String {
    format!("none (ferrule {FERRULE})")
}

fn emulated() -> String {
    format!("{}.{}", KUBERNETES.major, KUBERNETES.minor)
}
