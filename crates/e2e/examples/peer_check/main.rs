//! Compares Ferrule with the real kube-proxy: flags, written configurations, accept and refuse verdicts, gates.
//!
//! Called by `scripts/peer-check` with the paths of the two programs and of the case files. Only ever runs them with
//! `--help`, `--version` or `--write-config-to`, none of which touches the kernel or the network. Every difference
//! must carry a reason; one without, or a reason that explains nothing, fails the check.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod cases;
mod flags;
mod gates;
mod program;
mod report;
mod written;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use program::{Pair, Program};
use report::Report;

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [theirs, ours, case_folder] = arguments.as_slice() else {
        eprintln!("usage: peer_check KUBE-PROXY FERRULE CASE-FOLDER");
        return ExitCode::FAILURE;
    };
    match check(theirs, ours, case_folder) {
        Ok(report) => report.finish(),
        Err(problem) => {
            eprintln!("peer-check: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn check(theirs: &Path, ours: &Path, case_folder: &Path) -> std::io::Result<Report> {
    let scratch = tempfile::tempdir()?;
    let pair =
        Pair { theirs: Program::new(theirs, scratch.path()), ours: Program::new(ours, scratch.path()) };
    let mut report = Report::default();
    flags::compare(&pair, &mut report)?;
    gates::compare(&pair, &mut report)?;
    for case in cases::read_folder(case_folder)? {
        written::compare(&pair, &case, scratch.path(), &mut report)?;
    }
    Ok(report)
}
