//! Locates the programs that `scripts/cluster-build` builds.

use std::env;
use std::path::PathBuf;

use crate::netns;

/// Whether an API server can run on this machine. If not, prints the reason in one line, and the test should return; with
/// `CI=true` it panics instead.
///
/// # Panics
/// With `CI=true`, if something is missing.
pub fn or_skip() -> bool {
    if !netns::or_skip() {
        return false;
    }
    if env::var_os(super::OUTSIDE).is_some() {
        return true;
    }
    let Some(missing) = ["etcd", "kube-apiserver"].into_iter().find(|name| !program(name).exists()) else {
        return true;
    };
    let reason =
        format!("{} is not there; scripts/cluster-build builds it, with Go", program(missing).display());
    assert!(env::var("CI").as_deref() != Ok("true"), "no API server under CI=true: {reason}");
    #[expect(clippy::print_stderr, reason = "a skipped test must say so")]
    {
        eprintln!("skipped: {reason}");
    }
    false
}

/// The path of a program that `scripts/cluster-build` builds; it may not exist. `FERRULE_KUBE_APISERVER` names an API server of another
/// version.
pub fn program(name: &str) -> PathBuf {
    if let Some(other) = env::var_os("FERRULE_KUBE_APISERVER").filter(|_| name == "kube-apiserver") {
        return other.into();
    }
    let home = || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cache/ferrule");
    let cache = env::var_os("FERRULE_CACHE").map_or_else(home, PathBuf::from);
    cache.join("peer").join(version()).join(name)
}

/// The Kubernetes version the peer module requires, which names the folder in the cache.
fn version() -> &'static str {
    let module = include_str!("../../../../tests/peer/go.mod");
    let found = module
        .lines()
        .find_map(|line| line.trim().trim_start_matches("require ").strip_prefix("k8s.io/kubernetes "));
    found.unwrap_or("unknown")
}
