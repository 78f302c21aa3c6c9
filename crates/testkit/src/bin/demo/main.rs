//! A tour of what Ferrule does, with real packets, in namespaces of its own: `demo PATH-OF-FERRULE`.
//!
//! Builds a node, pods and an outside client, starts the program on a folder of manifests, and shows step by step how
//! connections fare. Exits with 1 if a step fails. The host's own network is never touched.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this program talks to a terminal")]

mod report;
mod stage;
mod tour;

use std::path::PathBuf;
use std::process::ExitCode;

use ferrule_testkit::netns::available;

fn main() -> ExitCode {
    let Some(ferrule) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: demo PATH-OF-FERRULE");
        return ExitCode::from(2);
    };
    // Without root this executes the program again in a user namespace, so it comes first.
    if let Err(reason) = available() {
        eprintln!("demo: network namespaces are needed and cannot be made here: {reason}");
        return ExitCode::FAILURE;
    }
    match tour::run(&ferrule) {
        Ok(report) => {
            print!("{}", report.table());
            if report.is_all_well() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(problem) => {
            eprintln!("demo: {problem}");
            ExitCode::FAILURE
        }
    }
}
