//! Whether namespaces can be made here, and what to do if not.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::OnceLock;

use super::Namespace;

/// Set in the process that runs inside a user namespace, so that it does not try again.
const INSIDE: &str = "FERRULE_INSIDE_USER_NAMESPACE";

/// Whether worlds can be built here; if not, why, in one line.
///
/// A process without the privilege starts itself anew in a user namespace, where it has it: this call then does not
/// return, and the program begins again with the same arguments. So it is to be called before anything is done that must
/// not be done twice.
pub fn available() -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    ANSWER.get_or_init(find_out).clone()
}

/// For tests: whether to go on. A machine that cannot is told in one line and the test is passed over; under `CI=true`
/// that is a failure.
///
/// # Panics
/// Under `CI=true`, if worlds cannot be built.
pub fn or_skip() -> bool {
    let Err(reason) = available() else { return true };
    assert!(env::var("CI").as_deref() != Ok("true"), "no namespaces under CI=true: {reason}");
    #[expect(clippy::print_stderr, reason = "a test that is passed over must say so")]
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
    Err(format!("{problem}; and starting anew in a user namespace: {}", start_anew()))
}

fn try_once() -> Result<(), String> {
    let namespace = Namespace::new("trial").map_err(|error| error.with_sources())?;
    let links = "link set lo up\nlink add trial0 type veth peer name trial1\n";
    namespace.feed("ip", &["-batch", "-"], links).map(drop).map_err(|error| error.with_sources())
}

/// Replaces this process; returns only with the reason why that failed.
fn start_anew() -> String {
    let program = match env::current_exe() {
        Ok(program) => program,
        Err(error) => return error.to_string(),
    };
    // A user namespace that cannot be made is found out before this process is given up for it.
    match Command::new("unshare").args(["--user", "--map-root-user", "--net", "true"]).status() {
        Ok(status) if status.success() => {}
        Ok(status) => return format!("unshare: {status}"),
        Err(error) => return format!("unshare: {error}"),
    }
    let mut anew = Command::new("unshare");
    anew.args(["--user", "--map-root-user", "--net"]).arg(program).args(env::args_os().skip(1));
    anew.env(INSIDE, "1").exec().to_string()
}
