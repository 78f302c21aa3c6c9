//! The programs of iptables' `nft` variant, as writers and readers of the same rules.

use std::env;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::thread;

use ferrule_kernel::nft::Family;

use super::namespace::in_namespace;

/// The version whose encoding is ours.
const ORACLE: &str = "v1.8.9 ";

/// Runs a test in a network namespace of its own, if the programs are installed.
pub fn with_iptables(test: impl FnOnce() + Send + 'static) {
    let lacking = ["iptables-nft", "ip6tables-nft", "ipset"];
    match lacking.into_iter().find(|program| Command::new(program).arg("--version").output().is_err()) {
        Some(program) => skip(&format!("{program} is missing")),
        None => in_namespace(test),
    }
}

/// The same for a test that compares every byte with the version whose encoding is ours.
pub fn with_oracle(test: impl FnOnce() + Send + 'static) {
    let version = Command::new("iptables-nft").arg("--version").output().map(|output| output.stdout);
    match version {
        Ok(version) if !String::from_utf8_lossy(&version).contains(ORACLE) => {
            skip(&format!("{} is not {ORACLE}", String::from_utf8_lossy(&version).trim()));
        }
        Ok(_) | Err(_) => with_iptables(test),
    }
}

/// Says why a test is skipped; on a machine that is there for testing (`CI=true`) it fails.
pub fn skip(reason: &str) {
    assert!(!env::var("CI").is_ok_and(|ci| ci == "true"), "{reason}");
    println!("{}: skipped, {reason}", thread::current().name().unwrap_or_default());
}

/// The name of a program of the family, with a suffix such as `-save`.
pub fn program(family: Family, suffix: &str) -> String {
    let family = match family {
        Family::Ip => "iptables",
        Family::Ip6 => "ip6tables",
    };
    format!("{family}-nft{suffix}")
}

/// Writes a text with `iptables-restore --noflush`.
pub fn restore(family: Family, text: &str) {
    let output = run(&program(family, "-restore"), &["--noflush", "--counters"], text);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}\n{text}");
}

/// The rules as `iptables-save` prints them.
pub fn save(family: Family) -> String {
    let output = run(&program(family, "-save"), &[], "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs `iptables` with arguments.
pub fn iptables(family: Family, arguments: &[&str]) -> Output {
    run(&program(family, ""), arguments, "")
}

/// Creates ipsets; each line is one `create` command without that word.
pub fn create_sets(lines: &[&str]) {
    for line in lines {
        let arguments: Vec<&str> = ["create"].into_iter().chain(line.split_whitespace()).collect();
        let output = run("ipset", &arguments, "");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Runs a program with an input.
pub fn run(program: &str, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it was there a moment ago");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}
