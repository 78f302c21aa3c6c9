//! `/debug/pprof`: profiles of the running program. Only where profiling is allowed.
//!
//! What Go has and this program has not is refused with a line that says what there is.

use std::fmt::Write as _;
use std::time::Duration;

use ferrule_watch::server::SecretUrl;

use super::{Answer, Question, SlowPage};
use crate::causes::with_causes;
use crate::profiles;

const ROOT: &str = "/debug/pprof/";
/// As long as Go's, if nobody says how long.
const USUAL: u64 = 30;
/// Well below what a connection may last.
const LONGEST: u64 = 300;

const PAGES: [(&str, &str); 4] = [
    ("profile", "processor time by stack, for ?seconds=30, at most 300"),
    ("heap", "memory in use by stack, of what was allocated since the start"),
    ("cmdline", "how the program was called"),
    ("symbol", "always says that there is nothing to look up: names are in the profiles"),
];

/// The quick pages under `/debug/pprof`, and what is said of those there are not.
pub fn page(question: &Question) -> Option<Answer> {
    if question.path == "/debug/pprof" {
        let body = format!("<a href=\"{ROOT}\">Found</a>.\n\n");
        return Some(Answer::plain("text/html; charset=utf-8", 302, body).with("location", ROOT));
    }
    match question.path.strip_prefix(ROOT)? {
        "" => Some(index()),
        "cmdline" => Some(command_line()),
        "symbol" => Some(Answer::text(200, "num_symbols: 0\n")),
        _ => Some(not_there()),
    }
}

/// Profiles.
pub fn slow(question: &Question) -> Option<SlowPage> {
    match question.path.strip_prefix(ROOT)? {
        "profile" => {
            let seconds = seconds(question);
            Some(Box::new(move |is_given_up| match seconds {
                Ok(duration) => match profiles::of_processor(duration, is_given_up) {
                    Ok(profile) => download("profile", profile),
                    Err(failure) => Answer::text(500, with_causes(&failure) + "\n"),
                },
                Err(refusal) => refusal,
            }))
        }
        "heap" => {
            let has_seconds = question.has("seconds");
            Some(Box::new(move |_| if has_seconds { no_seconds() } else { heap() }))
        }
        _ => None,
    }
}

fn index() -> Answer {
    let mut page = format!("<html>\n<head><title>{ROOT}</title></head>\n<body>\n<table>\n");
    for (name, what) in PAGES {
        let _ = writeln!(page, "<tr><td><a href=\"{name}\">{name}</a></td><td>{what}</td></tr>");
    }
    Answer::of("text/html; charset=utf-8", 200, page + "</table>\n</body>\n</html>\n")
}

fn command_line() -> Answer {
    let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    Answer::text(200, without_secrets(arguments).join("\0"))
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

fn not_there() -> Answer {
    let there = PAGES.map(|(name, _)| name).join(", ");
    Answer::text(404, format!("this program has no such profile; under {ROOT} there are: {there}\n"))
}

fn seconds(question: &Question) -> Result<Duration, Answer> {
    let Some(text) = question.parameters("seconds").next() else { return Ok(Duration::from_secs(USUAL)) };
    match text.parse::<u64>() {
        Ok(seconds @ 1..=LONGEST) => Ok(Duration::from_secs(seconds)),
        _ => Err(Answer::text(400, format!("seconds must be a whole number from 1 to {LONGEST}\n"))),
    }
}

fn no_seconds() -> Answer {
    let advice = "take two and compare them: pprof -base first second";
    Answer::text(400, format!("a heap profile is of a moment and takes no seconds; {advice}\n"))
}

fn heap() -> Answer {
    match profiles::of_heap() {
        Ok(profile) => download("heap", profile),
        Err(failure) => Answer::text(500, with_causes(&failure) + "\n"),
    }
}

fn download(name: &str, profile: Vec<u8>) -> Answer {
    Answer::of("application/octet-stream", 200, profile)
        .with("content-disposition", format!("attachment; filename=\"{name}\""))
}

#[cfg(test)]
mod tests;
