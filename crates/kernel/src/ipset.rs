//! Sets of addresses (`ip_set`), as far as removing some needs it: by the `ipset` program, if there is one.

use std::process::Command;

/// The names of all sets; none where there is no program, or no such part of the kernel.
pub fn names() -> Vec<String> {
    let listed = Command::new("ipset").args(["list", "-n"]).env("LC_ALL", "C").output();
    match listed {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

/// Removes a set; says whether that went well. One that a rule uses stays.
pub fn destroy(name: &str) -> bool {
    Command::new("ipset").args(["destroy", name]).output().is_ok_and(|output| output.status.success())
}
