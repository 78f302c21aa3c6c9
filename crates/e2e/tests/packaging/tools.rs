//! Programs that these tests need and that cargo does not build.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The top folder of the repository.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The program as one static file, which `scripts/test` builds. `None` if there is none, and the test should return.
pub fn static_program() -> Option<PathBuf> {
    let named = env::var_os("FERRULE_STATIC").map(PathBuf::from).filter(|path| path.exists());
    named.or_else(|| skipped("FERRULE_STATIC names no static program; `scripts/static-program` builds one"))
}

/// What a script of the project's prints as its last line: the path of a program it built or downloaded.
pub fn by_script(script: &str, arguments: &[&str]) -> Option<PathBuf> {
    let output =
        Command::new(root().join(script)).args(arguments).output().expect("a script of the project's");
    let path = String::from_utf8_lossy(&output.stdout).lines().last().map(PathBuf::from);
    match path.filter(|_| output.status.success()) {
        Some(path) => Some(path),
        None => {
            skipped(&format!("{script} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)))
        }
    }
}

/// Says why a test is skipped; with `CI=true` that is a failure.
fn skipped<T>(reason: &str) -> Option<T> {
    assert!(env::var("CI").as_deref() != Ok("true"), "under CI=true: {reason}");
    println!("skipped: {reason}");
    None
}
