//! Whether this machine lets us create namespaces.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::OnceLock;

use super::Namespace;

/// Set in the process inside a user namespace, so that it does not try again.
const INSIDE: &str = "FERRULE_INSIDE_USER_NAMESPACE";

/// Whether worlds can be built here; if not, why, in one line.
///
/// A process without the privilege executes itself again in a user namespace, where it has it: this call then does not
/// return, and the program starts over with the same arguments. Call it before anything that must not happen twice.
pub fn available() -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    ANSWER.get_or_init(find_out).clone()
}

/// Whether a test can run. If not, prints the reason in one line, and the test should return; with `CI=true` it panics
/// instead.
///
/// # Panics
/// With `CI=true`, if worlds cannot be built.
pub fn or_skip() -> bool {
    let Err(reason) = available() else { return true };
    assert!(env::var("CI").as_deref() != Ok("true"), "no namespaces under CI=true: {reason}");
    #[expect(clippy::print_stderr, reason = "a skipped test must say so")]
    {
        eprintln!("skipped, no network namespaces here: {reason}");
    }
    false
}

fn find_out() -> Result<(), String> {
    let Err(problem) = try_once() else { return Ok(()) };
    let is_root = rustix::process::geteuid().is_root();
    if is_root || env::var_os(INSIDE).is_some() {
        return Err(problem);
    }
    Err(format!("{problem}; and executing again in a user namespace: {}", reexecute()))
}

fn try_once() -> Result<(), String> {
    let namespace = Namespace::new("trial").map_err(|error| error.with_sources())?;
    let links = "link set lo up\nlink add trial0 type veth peer name trial1\n";
    namespace.feed("ip", &["-batch", "-"], links).map(drop).map_err(|error| error.with_sources())
}

/// Replaces this process; returns only with the reason why that failed.
fn reexecute() -> String {
    let program = match env::current_exe() {
        Ok(program) => program,
        Err(error) => return error.to_string(),
    };
    // Try first whether a user namespace can be made: exec gives up this process.
    match Command::new("unshare").args(["--user", "--map-root-user", "--net", "true"]).status() {
        Ok(status) if status.success() => {}
        Ok(status) => return format!("unshare: {status}"),
        Err(error) => return format!("unshare: {error}"),
    }
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net"]).arg(program).args(env::args_os().skip(1));
    command.env(INSIDE, "1").exec().to_string()
}
