//! A real API server for tests in a virtual machine, run outside of it: `scripts/vm-ipvs`.
//!
//! Prints one line, its folder and a path of its network namespace, once it is ready. Ends when its input ends, and with it
//! everything it started.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "what it prints is its answer")]

use std::io::Read as _;
use std::process::ExitCode;

use ferrule_testkit::api_server::{ApiServer, Options};

fn main() -> ExitCode {
    let server = match ApiServer::start(Options::default()) {
        Ok(server) => server,
        Err(error) => {
            eprintln!("{}", error.with_sources());
            return ExitCode::FAILURE;
        }
    };
    println!("{} {}", server.folder().display(), server.namespace().path());
    // Nothing is ever written to it.
    let _ = std::io::stdin().read(&mut [0]);
    ExitCode::SUCCESS
}
