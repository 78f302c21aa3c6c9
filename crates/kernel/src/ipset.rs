//! Sets of addresses (`ip_set`), as far as removing some needs it: by the `ipset` program, if there is one.

use std::process::Output;
use std::time::Duration;

use crate::subprocess::{self, Run, RunError};

/// How long it may take. It asks the kernel a short question.
const LIMIT: Duration = Duration::from_mins(1);

/// The names of all sets; none where there is no program, or no such part of the kernel.
pub fn names() -> Vec<String> {
    match ipset(&["list", "-n"]) {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

/// Removes a set; says whether that went well. One that a rule uses stays.
pub fn destroy(name: &str) -> bool {
    ipset(&["destroy", name]).is_ok_and(|output| output.status.success())
}

fn ipset(arguments: &[&str]) -> Result<Output, RunError> {
    subprocess::run(&Run { program: "ipset", arguments, input: "", limit: LIMIT, cancel: None })
}
