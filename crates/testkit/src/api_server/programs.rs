//! Where the programs are that `scripts/cluster-build` builds.

use std::env;
use std::path::PathBuf;

use crate::netns;

/// For tests: whether there can be an API server here. A machine that lacks something is told in one line and the test is
/// passed over; under `CI=true` that is a failure.
///
/// # Panics
/// Under `CI=true`, if something is lacking.
pub fn or_skip() -> bool {
    if !netns::or_skip() {
        return false;
    }
    let Some(lacking) = ["etcd", "kube-apiserver"].into_iter().find(|name| !program(name).exists()) else {
        return true;
    };
    let reason =
        format!("{} is not there; scripts/cluster-build builds it, with Go", program(lacking).display());
    assert!(env::var("CI").as_deref() != Ok("true"), "no API server under CI=true: {reason}");
    #[expect(clippy::print_stderr, reason = "a test that is passed over must say so")]
    {
        eprintln!("skipped: {reason}");
    }
    false
}

/// The path of a program that `scripts/cluster-build` builds, whether it is there or not.
pub fn program(name: &str) -> PathBuf {
    let home = || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cache/ferrule");
    let cache = env::var_os("FERRULE_CACHE").map_or_else(home, PathBuf::from);
    cache.join("peer").join(version()).join(name)
}

/// The version the peer module requires, which is the name of the folder in the cache.
fn version() -> &'static str {
    let module = include_str!("../../../../tests/peer/go.mod");
    let found = module
        .lines()
        .find_map(|line| line.trim().trim_start_matches("require ").strip_prefix("k8s.io/kubernetes "));
    found.unwrap_or("unknown")
}
