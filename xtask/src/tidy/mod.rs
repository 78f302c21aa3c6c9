//! The rules of the code base that no compiler checks, one module each.
//!
//! Every check takes files as data and returns findings; this module reads the tree and runs cargo. Checks correct
//! nothing: a finding says what to do.

mod arrows;
mod clippy_bans;
mod docs;
mod exceptions;
mod portability;
mod proxy_mode;
mod reminders;
mod sizes;
mod threads;
mod unsafe_code;
mod vocabulary;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::Verdict;
use crate::finding::Finding;
use crate::tree::{self, SourceFile};

use exceptions::Exceptions;
use sizes::Measured;

const EXCEPTIONS: &str = "xtask/tidy-exceptions.txt";

/// Runs every check and prints what it found, one line each.
pub fn run(root: &Path) -> Result<Verdict> {
    let files = tree::source_files(root)?;
    let packages = arrows::workspace_packages(root)?;
    let exceptions =
        fs::read_to_string(root.join(EXCEPTIONS)).with_context(|| format!("reading {EXCEPTIONS}"))?;
    let measured = sizes::measure(&files);

    let mut findings = arrows::findings(&packages);
    findings.extend(Exceptions::parse(EXCEPTIONS, &exceptions).remaining(&measured.oversized));
    findings.extend(text_findings(&files));
    findings.sort();
    print_report(&files, &measured, &findings);
    Ok(if findings.is_empty() { Verdict::Clean } else { Verdict::Violated })
}

fn text_findings(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = docs::findings(files);
    findings.extend(threads::findings(files));
    findings.extend(unsafe_code::findings(files));
    findings.extend(clippy_bans::findings(files));
    findings.extend(reminders::findings(files));
    findings.extend(portability::findings(files));
    findings.extend(proxy_mode::findings(files));
    findings.extend(vocabulary::findings(files));
    findings
}

fn print_report(files: &[SourceFile], measured: &Measured, findings: &[Finding]) {
    for note in &measured.notes {
        println!("note: {note}");
    }
    for finding in findings {
        println!("{finding}");
    }
    println!(
        "tidy: {} files, {} violations; above a soft limit: {} of the files ({} lines), {} functions ({} lines)",
        files.len(),
        findings.len(),
        measured.long_files,
        sizes::SOFT_FILE_LINES,
        measured.long_functions,
        sizes::SOFT_FUNCTION_LINES,
    );
}
