//! The program in the pods of `make e2e` while the service proxy is exchanged: servers, and clients that count what fails.
//!
//! `load serve PORT` answers; `load connect ADDRESS RATE KEPT STOP_FILE` makes RATE connections a second, keeps KEPT others open,
//! and prints what it saw as one line of JSON once the file exists.

mod client;
mod server;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&format!("load: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    match arguments {
        ["serve", port] => Ok(server::serve(port.parse()?)?),
        ["connect", address, rate, kept, stop] => {
            client::connect(address.parse()?, rate.parse()?, kept.parse()?, Path::new(stop));
            Ok(())
        }
        _ => Err("usage: load serve PORT | load connect ADDRESS RATE KEPT STOP_FILE".into()),
    }
}

/// A line for whoever reads the pod's log.
#[allow(clippy::print_stdout, reason = "the log of a pod is its standard output")]
fn report(line: &str) {
    println!("{line}");
}
