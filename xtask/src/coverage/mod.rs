//! Which rows of the specification are held by which tests: `docs/coverage.md`, generated and checked.
//!
//! A row is *tested* if a test or a story names it, or *waits* if `xtask/rows-waiting.txt` says for what;
//! it must be exactly one of the two. The specification itself is not read: `xtask/spec-rows.txt` lists its rows.
//! Whether a test suits its row is for a reviewer to judge.

mod ledger;
mod page;
mod rows;
mod tags;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::Verdict;
use crate::finding::Finding;
use crate::tree::{self, SourceFile};

use ledger::Ledger;
use rows::{Catalogue, Row};

const ROWS: &str = "xtask/spec-rows.txt";
const WAITING: &str = "xtask/rows-waiting.txt";
const PAGE: &str = "docs/coverage.md";

/// What to do with the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Write it; rows without a test are counted, not an error.
    Write,
    /// Change nothing; every row must be accounted for and the page on disk be the one that would be written.
    Check,
}

/// Reads rows, tags and waiting list, then writes or checks the page.
pub fn run(root: &Path, mode: Mode) -> Result<Verdict> {
    let files = tree::source_files(root)?;
    let read = |path: &str| fs::read_to_string(root.join(path)).with_context(|| format!("reading {path}"));
    let catalogue = Catalogue::parse(&read(ROWS)?).with_context(|| format!("reading {ROWS}"))?;
    let mut ledger = ledger_of(&files, &read(WAITING)?, &catalogue);
    let page = page::render(&catalogue, &ledger);

    let mut findings = std::mem::take(&mut ledger.findings);
    match mode {
        Mode::Write => fs::write(root.join(PAGE), &page).with_context(|| format!("writing {PAGE}"))?,
        Mode::Check => {
            findings.extend(unheld_findings(&catalogue, &ledger));
            if fs::read_to_string(root.join(PAGE)).ok().as_deref() != Some(&page) {
                findings.push(Finding::new(PAGE, 1, "is out of date; run `cargo xtask coverage`"));
            }
        }
    }
    for finding in &findings {
        println!("{finding}");
    }
    println!("coverage: {}, {} violations", ledger.summary(&catalogue), findings.len());
    Ok(if findings.is_empty() { Verdict::Clean } else { Verdict::Violated })
}

/// One finding for each section with rows that are neither tested nor waiting.
fn unheld_findings(catalogue: &Catalogue, ledger: &Ledger) -> Vec<Finding> {
    let mut findings = Vec::new();
    for section in &catalogue.sections {
        let unheld: Vec<Row> = section.rows().filter(|row| ledger.is_unheld(row)).collect();
        if !unheld.is_empty() {
            let message = format!(
                "no test for {} {}; name them in a test (`/// Row: …`) or a story, or say in {WAITING} what they wait for",
                section.spec,
                rows::as_ranges(&unheld)
            );
            findings.push(Finding::new(ROWS, section.line, message));
        }
    }
    findings
}

fn ledger_of(files: &[SourceFile], waiting: &str, catalogue: &Catalogue) -> Ledger {
    let mut ledger = Ledger::default();
    for file in files {
        let tags = if is_tested_source(file) {
            tags::in_rust(file)
        } else if file.path.starts_with("stories/") && file.extension() == Some("story") {
            tags::in_story(file)
        } else {
            continue;
        };
        ledger.add_tags(tags, catalogue);
    }
    ledger.add_waiting(WAITING, waiting, catalogue);
    ledger
}

/// Not this crate: its own tests are full of tags without meaning.
fn is_tested_source(file: &SourceFile) -> bool {
    file.is_rust() && (file.path.starts_with("crates/") || file.path.starts_with("tests/"))
}

#[cfg(test)]
mod tests;
