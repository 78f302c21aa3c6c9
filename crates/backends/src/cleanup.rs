//! Removes what modes left on the host: all of it for `--cleanup`, and at a start what the other modes left, once our own
//! rules are complete.

use ferrule_plan::ProxyMode;

use crate::{BackendError, InUse, Leftover, backend, ipvs};

/// Rules go before what they refer to: ipvs mode's sets can be removed only when no iptables rule uses them.
const ORDER: [ProxyMode; 4] =
    [ProxyMode::Nftables, ProxyMode::Iptables, ProxyMode::Ipvs, ProxyMode::Userspace];

/// A mode that is missing above does not compile.
const _: () = assert!(ORDER.len() == ProxyMode::ALL.len(), "every mode is cleaned up");

/// Removes what any mode left and is not in use. Goes on after a failure, and returns the first.
pub fn remove_leftovers(in_use: Option<&InUse>) -> (Vec<Leftover>, Result<(), BackendError>) {
    let (mut removed, mut result) = (Vec::new(), Ok(()));
    // Before the rules that protect them.
    if in_use.is_none_or(|in_use| in_use.mode != ProxyMode::Ipvs) {
        let what = "virtual servers and the interface kube-ipvs0";
        match ipvs::remove_servers() {
            Ok(0) => {}
            Ok(objects) => removed.push(Leftover { mode: ProxyMode::Ipvs, what, objects }),
            Err(error) => result = Err(error),
        }
    }
    for mode in ORDER {
        match backend(mode).remove_leftovers(in_use) {
            Ok(leftovers) => removed.extend(leftovers.into_iter().filter(|leftover| leftover.objects > 0)),
            Err(error) => result = result.and(Err(error)),
        }
    }
    (removed, result)
}
