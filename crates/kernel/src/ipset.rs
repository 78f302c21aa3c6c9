//! Address sets (`ip_set`), only what cleanup needs, with the `ipset` program if it is installed.

use std::process::Output;
use std::time::Duration;

use crate::subprocess::{self, Run, RunError};

/// It makes one short request to the kernel.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(1);

/// The names of all sets; none if the program is not installed or the kernel has no sets.
pub fn names() -> Vec<String> {
    match ipset(&["list", "-n"]) {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

/// Removes a set and returns whether it succeeded. A set that a rule uses stays.
pub fn destroy(name: &str) -> bool {
    ipset(&["destroy", name]).is_ok_and(|output| output.status.success())
}

fn ipset(arguments: &[&str]) -> Result<Output, RunError> {
    subprocess::run(&Run { program: "ipset", arguments, input: "", timeout: COMMAND_TIMEOUT, cancel: None })
}
