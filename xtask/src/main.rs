//! The project's own checks, run as `cargo xtask NAME`.
//!
//! `tidy` checks the rules no compiler knows (module docs, sizes, arrows between crates, vocabulary); `coverage`
//! maintains `docs/coverage.md`, the list of specification rows and the tests that hold them.
//! Builds nothing and changes no file but that page. Start at [`tidy`] or [`coverage`].

#![allow(clippy::print_stdout, reason = "a command-line tool answers on standard output")]

mod coverage;
mod finding;
mod tidy;
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::coverage::Mode;

const USAGE: &str = "\
usage: cargo xtask tidy                check docs, sizes, arrows between crates, unsafe code, vocabulary
       cargo xtask coverage            write docs/coverage.md from the tests and stories
       cargo xtask coverage --check    fail if a row has no test or the page is out of date";

/// Whether a check found the tree in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Clean,
    Violated,
}

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let verdict = match arguments[..] {
        ["tidy"] => tidy::run(&root()?)?,
        ["coverage"] => coverage::run(&root()?, Mode::Write)?,
        ["coverage", "--check"] => coverage::run(&root()?, Mode::Check)?,
        _ => {
            println!("{USAGE}");
            return Ok(ExitCode::from(2));
        }
    };
    Ok(match verdict {
        Verdict::Clean => ExitCode::SUCCESS,
        Verdict::Violated => ExitCode::FAILURE,
    })
}

/// The top folder of the repository: the one that holds this crate's folder.
fn root() -> Result<PathBuf> {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").context("run this as `cargo xtask`")?;
    let mut root = PathBuf::from(here);
    root.pop();
    Ok(root)
}
