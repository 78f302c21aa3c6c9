//! The project's own checks and packers, run as `cargo xtask NAME`.
//!
//! `tidy` checks the rules no compiler knows (module docs, sizes, arrows between crates, vocabulary); `coverage`
//! maintains `docs/coverage.md`, the list of specification rows and the tests that hold them. `image` and `sbom` package a program
//! that `scripts/release` built; `e2e` makes the table of upstream's specs from their reports. Start at the module of that name.

#![allow(clippy::print_stdout, reason = "a command-line tool answers on standard output")]

mod arguments;
mod coverage;
mod e2e;
mod finding;
mod hex;
mod image;
mod sbom;
mod tidy;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::coverage::Mode;
use crate::e2e::Extent;

const USAGE: &str = "\
usage: cargo xtask tidy                check docs, sizes, arrows between crates, unsafe code, vocabulary
       cargo xtask coverage            write docs/coverage.md from the tests and stories
       cargo xtask coverage --check    fail if a row has no test or the page is out of date
       cargo xtask e2e skipped COLUMN  print which of upstream's specs are not run there, as a regular expression
       cargo xtask e2e table FOLDER [--some]
                                       write the table of upstream's specs from the reports in the folder, of all or only some specs
       cargo xtask image --…           write a container image as an archive; see scripts/image
       cargo xtask sbom --…            write a bill of materials; see scripts/release";

/// Whether a check found the tree in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Clean,
    Violated,
}

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let verdict = match &arguments[..] {
        ["tidy"] => tidy::run(&root()?)?,
        ["coverage"] => coverage::run(&root()?, Mode::Write)?,
        ["coverage", "--check"] => coverage::run(&root()?, Mode::Check)?,
        ["e2e", "skipped", column] => e2e::print_skipped(&root()?, column)?,
        ["e2e", "table", folder] => e2e::run(&root()?, Path::new(folder), Extent::AllSpecs)?,
        ["e2e", "table", folder, "--some"] => e2e::run(&root()?, Path::new(folder), Extent::SomeSpecs)?,
        ["image", rest @ ..] => image::run(rest).map(|()| Verdict::Clean)?,
        ["sbom", rest @ ..] => sbom::run(&root()?, rest).map(|()| Verdict::Clean)?,
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
