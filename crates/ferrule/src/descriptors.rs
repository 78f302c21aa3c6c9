//! File descriptors: the limit of this process, and the shares of HTTP.
//!
//! Any client can make this process open a socket. Netlink, the API server, files and subprocesses, on which the rules depend,
//! must still find free descriptors, so connections and listeners are limited to a share each.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::info;

/// Kept for everything that is not HTTP: some forty are in use, and a run of iptables takes ten more.
const RESERVED: u64 = 128;
/// Only an attacker needs more connections at a time.
const MAX_CONNECTIONS: u64 = 1024;

/// How many descriptors HTTP may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// For connections.
    pub connections: usize,
    /// For listening sockets.
    pub listeners: usize,
}

impl Shares {
    /// The shares under a limit on the process's descriptors; a low limit reduces all of them.
    pub fn under(limit: u64) -> Self {
        let for_http = limit.saturating_sub(RESERVED.min(limit / 2));
        let connections = MAX_CONNECTIONS.min(for_http / 2);
        let whole = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        Self { connections: whole(connections), listeners: whole(for_http - connections) }
    }
}

/// Raises the hard limit on descriptors, if it is lower and that is permitted.
pub fn raise_hard_limit(wanted: u64) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if maximum.is_some_and(|maximum| maximum < wanted) {
        // Without the right to do so the limit stays; it is logged later.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: Some(wanted) });
    }
}

/// Raises the soft limit on descriptors to the hard one, and returns the shares of HTTP.
///
/// The soft limit is 1024 by tradition, for programs that use `select`. This one does not, and neither do its subprocesses: they
/// open few descriptors and inherit none.
pub fn raise_limit() -> Shares {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let is_raised =
        current != maximum && setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    // `None` means unlimited.
    let limit = if is_raised { maximum } else { current }.unwrap_or(u64::MAX);
    let shares = Shares::under(limit);
    info!(v = 2, limit, connections = shares.connections, listeners = shares.listeners, "File descriptors");
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_is_left_for_everything_else_whatever_the_limit() {
        for (limit, connections, listeners) in [
            (0, 0, 0),
            (64, 16, 16),
            (256, 64, 64),
            (1024, 448, 448),
            (4096, 1024, 2944),
            (1 << 20, 1024, (1 << 20) - 1024 - 128),
        ] {
            assert_eq!(Shares::under(limit), Shares { connections, listeners }, "{limit}");
        }
        assert!(Shares::under(u64::MAX).listeners > 1 << 30);
    }

    #[test]
    fn the_soft_limit_is_the_hard_one_afterwards() {
        raise_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
