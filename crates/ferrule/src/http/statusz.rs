//! `/statusz`: since when this program runs, and as which version.

use std::time::Duration;

use jiff::Timestamp;

use super::zpages::{Form, for_people, form, structured};
use super::{Answer, Question};
use crate::cli::version::{FERRULE, KUBERNETES};

/// The pages that are listed.
const PATHS: [&str; 5] = ["/configz", "/flagz", "/healthz", "/metrics", "/proxyMode"];

/// The page, for a program that was started then and has run so long.
pub fn page(question: &Question, started: Timestamp, up: Duration) -> Answer {
    match form(question, "Statusz") {
        Ok(Form::Text) => for_people("statusz", pairs(started, up)),
        Ok(Form::Json(version)) => structured((false, version), "Statusz", object(started, up)),
        Ok(Form::Yaml(version)) => structured((true, version), "Statusz", object(started, up)),
        Err(refusal) => refusal,
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

/// There is no Go; what stands in its place says what there is.
fn runtime() -> String {
    format!("none (ferrule {FERRULE})")
}

fn emulated() -> String {
    format!("{}.{}", KUBERNETES.major, KUBERNETES.minor)
}
