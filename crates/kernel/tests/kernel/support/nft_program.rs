//! The `nft` program, as a reader of what we wrote.

use std::io::Write as _;
use std::process::{Command, Stdio};

/// The whole ruleset as text.
pub fn list() -> String {
    run(&["list", "ruleset"], "")
}

/// The whole ruleset as JSON.
pub fn list_json() -> String {
    run(&["-j", "list", "ruleset"], "")
}

/// Loads a text.
pub fn load(text: &str) {
    run(&["-f", "-"], text);
}

/// Runs `nft` with arguments and input; it must succeed.
pub fn run(arguments: &[&str], input: &str) -> String {
    let mut nft = Command::new("nft")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("nft is installed (scripts/setup)");
    nft.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = nft.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "nft {arguments:?}: {errors}\n{input}");
    String::from_utf8(output.stdout).unwrap()
}
