//! The written list of size limits that a file or function may break, each with its reason.
//!
//! An entry that lifts nothing is itself a finding, so the list cannot outlive its causes.

use super::sizes::Oversized;
use crate::finding::Finding;

/// The parsed list, with the entries that could not be read.
pub struct Exceptions {
    list: String,
    entries: Vec<Entry>,
    unreadable: Vec<Finding>,
}

/// `path` or `path::function`, as the finding it lifts is named.
struct Entry {
    line: usize,
    name: String,
}

impl Exceptions {
    /// Reads lines of the form `NAME  REASON`; `#` opens a comment line.
    pub fn parse(list: &str, text: &str) -> Self {
        let mut exceptions = Self { list: list.to_owned(), entries: Vec::new(), unreadable: Vec::new() };
        for (index, line) in text.lines().enumerate() {
            let line_number = index + 1;
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            match line.split_once(char::is_whitespace) {
                Some((name, reason)) if !reason.trim().is_empty() => {
                    exceptions.entries.push(Entry { line: line_number, name: name.to_owned() });
                }
                _ => {
                    let message = "an exception without a reason; write `path::function  reason`";
                    exceptions.unreadable.push(Finding::new(list, line_number, message));
                }
            }
        }
        exceptions
    }

    /// What is left of the broken limits, and what is wrong with the list itself.
    pub fn remaining(self, oversized: &[Oversized]) -> Vec<Finding> {
        let lifted = |broken: &Oversized| self.entries.iter().any(|entry| entry.name == broken.name);
        let used = |entry: &Entry| oversized.iter().any(|broken| broken.name == entry.name);

        let mut findings = self.unreadable.clone();
        findings
            .extend(oversized.iter().filter(|broken| !lifted(broken)).map(|broken| broken.finding.clone()));
        for entry in self.entries.iter().filter(|entry| !used(entry)) {
            let message = format!("`{}` breaks no limit any more; remove the exception", entry.name);
            findings.push(Finding::new(&self.list, entry.line, message));
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remaining(list: &str) -> Vec<String> {
        let name = "crates/a/src/b.rs::c".to_owned();
        let broken = Oversized { name, finding: Finding::new("crates/a/src/b.rs", 7, "too long") };
        let findings = Exceptions::parse("list.txt", list).remaining(&[broken]);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_broken_limit_stays_without_an_exception() {
        assert_eq!(remaining("# nothing yet\n\n"), ["crates/a/src/b.rs:7: too long"]);
    }

    #[test]
    fn an_exception_lifts_the_limit_it_names() {
        assert!(remaining("crates/a/src/b.rs::c  one table, read top to bottom\n").is_empty());
    }

    #[test]
    fn an_exception_that_lifts_nothing_is_found() {
        let left = remaining("crates/a/src/b.rs::c  a table\ncrates/a/src/b.rs  gone\n");
        assert_eq!(left, ["list.txt:2: `crates/a/src/b.rs` breaks no limit any more; remove the exception"]);
    }

    #[test]
    fn an_exception_needs_a_reason() {
        assert_eq!(remaining("crates/a/src/b.rs::c\n").len(), 2);
    }
}
