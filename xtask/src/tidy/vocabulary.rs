//! Words that a reader from outside the project would have to translate, each with the word to use instead.
//!
//! Checks product source (identifiers, comments, strings) and Markdown; CONTRIBUTING.md has the vocabulary. Tests,
//! generated pages and decision records are left alone, and so is code in backticks.

mod prose;
mod source;

use crate::finding::Finding;
use crate::tree::SourceFile;

use prose::ProseLine;

/// A word or phrase of the house dialect.
struct Entry {
    dialect: &'static str,
    instead: &'static str,
}

const fn entry(dialect: &'static str, instead: &'static str) -> Entry {
    Entry { dialect, instead }
}

/// Banned as a word of an identifier: `told` matches `told`, `ToldOnce` and `was_told`.
const IDENTIFIERS: [Entry; 27] = [
    entry("told", "reported, notified, logged"),
    entry("untold", "unreported"),
    entry("tell", "report, notify, log, send"),
    entry("news", "changes, notifications, events"),
    entry("rhythm", "schedule, interval"),
    entry("beat", "interval, tick"),
    entry("way", "outcome, route, dispatch"),
    entry("ways", "chains, routes, dispatch"),
    entry("look", "verify, check, inspect, resync"),
    entry("looks", "checks"),
    entry("looked", "checked, verified"),
    entry("patience", "timeout, deadline, limit"),
    entry("patiently", "blocking"),
    entry("somebody", "the actor's name"),
    entry("anybody", "the actor's name"),
    entry("whoever", "the actor's name"),
    entry("seldom", "the limit it stands for"),
    entry("deed", "write, request"),
    entry("deeds", "writes, requests"),
    entry("occasion", "event, trigger"),
    entry("occasions", "events, triggers"),
    entry("ill", "unhealthy"),
    entry("illness", "unhealthy"),
    entry("signpost", "dispatch entry"),
    entry("inlet", "sender, events_tx"),
    entry("manner", "kind"),
    entry("dear", "expensive"),
];

/// Banned in comments, strings and Markdown.
const PHRASES: [Entry; 43] = [
    entry("told", "reported, logged, notified; \"told apart\" is distinguished"),
    entry("untold", "unreported"),
    entry("somebody", "name the actor: another program, a client, the operator"),
    entry("nobody", "name the actor, or say \"no one\", \"no program\", \"nothing\""),
    entry("anybody", "name the actor: any program, a caller"),
    entry("whoever", "name the actor: the program that, the caller that"),
    entry("looked at", "checked, verified, inspected"),
    entry("looked after", "maintained, refreshed"),
    entry("looked for", "searched, checked for"),
    entry("looked into", "inspected"),
    entry("a look at", "a check of"),
    entry("look again", "check again, verify"),
    entry("looks again", "checks again, verifies"),
    entry("without looking", "without a check"),
    entry("rhythm", "schedule, interval"),
    entry("now and then", "periodically"),
    entry("again and again", "repeatedly"),
    entry("patience", "timeout"),
    entry("patiently", "blocking, with a timeout"),
    entry("to who", "name the receiver"),
    entry("for who", "name the receiver"),
    entry("by who", "name the actor"),
    entry("of who", "name the actor"),
    entry("anew", "again, or the verb with re-"),
    entry("all there is", "everything, all objects"),
    entry("that is none", "that is not one, an invalid"),
    entry("that are none", "that are not, invalid"),
    entry("which is none", "which is not one, an invalid"),
    entry("is no matter of", "is not done by"),
    entry("in vain", "without success"),
    entry("seldom", "rarely"),
    entry("illness", "being unhealthy"),
    entry("is ill", "is unhealthy"),
    entry("be ill", "be unhealthy"),
    entry("gone on with", "continued, resumed"),
    entry("gone on from", "resumed from"),
    entry("has to say", "reports"),
    entry("have to say", "report"),
    entry("of no use", "not used"),
    entry("passed over", "skipped"),
    entry("made anew", "rebuilt"),
    entry("at last", "name the event it follows"),
    entry("wants to know", "subscribes, asks"),
];

/// Pages that a program writes, and records of past decisions.
const NOT_CHECKED: [&str; 2] = ["docs/coverage.md", "docs/decisions/"];

/// Every use of the dialect in product source and Markdown.
pub fn findings(files: &[SourceFile]) -> Vec<Finding> {
    files.iter().flat_map(in_file).collect()
}

fn in_file(file: &SourceFile) -> Vec<Finding> {
    if NOT_CHECKED.iter().any(|path| file.path.starts_with(path)) {
        return Vec::new();
    }
    if file.extension() == Some("md") {
        return in_prose(file, &prose::in_markdown(&file.text));
    }
    if !source::is_product(file) {
        return Vec::new();
    }
    // A file that does not parse is reported by the check of sizes.
    let Ok(source) = source::scan(&file.text) else { return Vec::new() };
    let mut findings = in_prose(file, &source.prose);
    for identifier in &source.identifiers {
        for found in IDENTIFIERS.iter().filter(|entry| identifier.has_word(entry.dialect)) {
            let message = format!("`{}`: not \"{}\" but {}", identifier.name, found.dialect, found.instead);
            findings.push(Finding::new(&file.path, identifier.line, message));
        }
    }
    findings.dedup();
    findings
}

fn in_prose(file: &SourceFile, lines: &[ProseLine]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        // A phrase may continue on the next line.
        let next = lines.get(index + 1).filter(|next| next.number == line.number + 1);
        for found in PHRASES.iter().filter(|entry| line.contains(entry.dialect, next)) {
            let message = format!("not \"{}\" but: {}", found.dialect, found.instead);
            findings.push(Finding::new(&file.path, line.number, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests;
