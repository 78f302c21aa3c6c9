//! A network namespace for each test: nothing of the host is touched, and nothing is left behind.

use std::process::Command;
use std::{env, thread};

use ferrule_kernel::sys::enter_new_network_namespace;

/// Set for a test that was started again inside a user namespace.
const AGAIN: &str = "FERRULE_TEST_IN_USER_NAMESPACE";

/// Runs a test in a network namespace of its own.
///
/// Without the right to make one, the test is started again in a user namespace, where everybody has it. Where that is
/// forbidden too, the test is skipped, but not on a machine that is there for testing (`CI=true`).
pub fn in_namespace(test: impl FnOnce() + Send + 'static) {
    let name = thread::current().name().map(str::to_owned).expect("test threads have names");
    let lacking = ["nft", "ip"].into_iter().find(|program| Command::new(program).arg("-V").output().is_err());
    if let Some(program) = lacking {
        assert!(!env::var("CI").is_ok_and(|ci| ci == "true"), "{program} is missing");
        println!("{name}: skipped, {program} is missing");
        return;
    }
    let ran = thread::spawn(move || match enter_new_network_namespace() {
        Ok(()) => {
            test();
            true
        }
        Err(_) => false,
    });
    if ran.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
        return;
    }
    assert!(env::var_os(AGAIN).is_none(), "no network namespace even inside a user namespace");
    let output = Command::new("unshare")
        .arg("-Ur")
        .arg(env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture"])
        .env(AGAIN, "1")
        .output();
    match output {
        Ok(output) if output.status.success() => {}
        Ok(output) if output.status.code() == Some(101) => {
            panic!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
        }
        _ if env::var("CI").is_ok_and(|ci| ci == "true") => panic!("network namespaces are forbidden here"),
        _ => println!("{name}: skipped, network namespaces are forbidden here"),
    }
}

/// Runs something in another namespace and returns what it says.
pub fn elsewhere<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    let other = thread::spawn(move || {
        enter_new_network_namespace().unwrap();
        what()
    });
    other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
