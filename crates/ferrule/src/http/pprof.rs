//! `/debug/pprof`: profiles of the running process. Only if profiling is enabled.
//!
//! Profiles that only Go has are answered with a 404 that lists the available ones.

use std::fmt::Write as _;
use std::time::Duration;

use ferrule_watch::server::SecretUrl;

use super::{BlockingResponse, Request, Response};
use crate::profiles;
use ferrule_model::with_causes;

const ROOT: &str = "/debug/pprof/";
/// Go's default.
const DEFAULT_SECONDS: u64 = 30;
/// Well below the maximum age of a connection.
const MAX_SECONDS: u64 = 300;

const PAGES: [(&str, &str); 4] = [
    ("profile", "CPU time by stack, for ?seconds=30, at most 300"),
    ("heap", "memory in use by stack, of what was allocated since the start"),
    ("cmdline", "the command line"),
    ("symbol", "always says that there is nothing to look up: names are in the profiles"),
];

/// The pages under `/debug/pprof` but for profiles; a 404 for unknown ones.
pub fn page(request: &Request) -> Option<Response> {
    if request.path == "/debug/pprof" {
        let body = format!("<a href=\"{ROOT}\">Found</a>.\n\n");
        return Some(Response::sniffable("text/html; charset=utf-8", 302, body).with("location", ROOT));
    }
    match request.path.strip_prefix(ROOT)? {
        "" => Some(index()),
        "cmdline" => Some(command_line()),
        "symbol" => Some(Response::text(200, "num_symbols: 0\n")),
        _ => Some(unknown_profile()),
    }
}

/// The profiles themselves.
pub fn blocking(request: &Request) -> Option<BlockingResponse> {
    match request.path.strip_prefix(ROOT)? {
        "profile" => {
            let seconds = seconds(request);
            Some(Box::new(move |is_cancelled| match seconds {
                Ok(duration) => match profiles::cpu_profile(duration, is_cancelled) {
                    Ok(profile) => download("profile", profile),
                    Err(failure) => Response::text(500, with_causes(&failure) + "\n"),
                },
                Err(bad_request) => bad_request,
            }))
        }
        "heap" => {
            let has_seconds = request.has("seconds");
            Some(Box::new(move |_| if has_seconds { no_seconds() } else { heap() }))
        }
        _ => None,
    }
}

fn index() -> Response {
    let mut page = format!("<html>\n<head><title>{ROOT}</title></head>\n<body>\n<table>\n");
    for (name, what) in PAGES {
        let _ = writeln!(page, "<tr><td><a href=\"{name}\">{name}</a></td><td>{what}</td></tr>");
    }
    Response::new("text/html; charset=utf-8", 200, page + "</table>\n</body>\n</html>\n")
}

fn command_line() -> Response {
    let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    Response::text(200, without_secrets(arguments).join("\0"))
}

/// The arguments without the user and password of `--master`.
fn without_secrets(arguments: impl Iterator<Item = String>) -> Vec<String> {
    const MASTER: &str = "--master";
    let mut is_next = false;
    let shown = arguments.map(|argument| {
        let is_url = std::mem::replace(&mut is_next, argument == MASTER);
        match argument.strip_prefix(MASTER).and_then(|rest| rest.strip_prefix('=')) {
            Some(url) => format!("{MASTER}={}", SecretUrl::new(url)),
            None if is_url => SecretUrl::new(&argument).to_string(),
            None => argument,
        }
    });
    shown.collect()
}

fn unknown_profile() -> Response {
    let there = PAGES.map(|(name, _)| name).join(", ");
    Response::text(404, format!("this program has no such profile; under {ROOT} there are: {there}\n"))
}

fn seconds(request: &Request) -> Result<Duration, Response> {
    let Some(text) = request.parameters("seconds").next() else {
        return Ok(Duration::from_secs(DEFAULT_SECONDS));
    };
    match text.parse::<u64>() {
        Ok(seconds @ 1..=MAX_SECONDS) => Ok(Duration::from_secs(seconds)),
        _ => Err(Response::text(400, format!("seconds must be a whole number from 1 to {MAX_SECONDS}\n"))),
    }
}

fn no_seconds() -> Response {
    let advice = "take two and compare them: pprof -base first second";
    Response::text(400, format!("a heap profile is of a moment and takes no seconds; {advice}\n"))
}

fn heap() -> Response {
    match profiles::heap_profile() {
        Ok(profile) => download("heap", profile),
        Err(failure) => Response::text(500, with_causes(&failure) + "\n"),
    }
}

fn download(name: &str, profile: Vec<u8>) -> Response {
    Response::new("application/octet-stream", 200, profile)
        .with("content-disposition", format!("attachment; filename=\"{name}\""))
}

#[cfg(test)]
mod tests;
