//! File descriptors: as many as this process may have, and who may use how many of them.
//!
//! Anybody who reaches a port can make this process open a socket. What the rules depend on (netlink, the API server, files, the
//! programs that are run) must find descriptors left all the same, so connections and listeners have a share each.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::info;

/// Kept for everything that is not HTTP: some forty are in use, and a run of iptables takes ten more.
const RESERVED: u64 = 128;
/// More connections than this at a time are of no use to anybody but an attacker.
const MAX_CONNECTIONS: u64 = 1024;

/// How many descriptors HTTP may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// For connections.
    pub connections: usize,
    /// For sockets that listen.
    pub listeners: usize,
}

impl Shares {
    /// The shares under a limit on the process's descriptors. Where there are few, every purpose gets less.
    pub fn under(limit: u64) -> Self {
        let for_http = limit.saturating_sub(RESERVED.min(limit / 2));
        let connections = MAX_CONNECTIONS.min(for_http / 2);
        let whole = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        Self { connections: whole(connections), listeners: whole(for_http - connections) }
    }
}

/// Raises the soft limit on descriptors to the hard one, and tells what that leaves for HTTP.
///
/// The soft limit is 1024 by tradition, for programs that use `select`. This one does not, and neither do the programs it runs:
/// they have few descriptors open and inherit none of ours.
pub fn raise_limit() -> Shares {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let is_raised =
        current != maximum && setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    // No limit at all is how `None` reads.
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
