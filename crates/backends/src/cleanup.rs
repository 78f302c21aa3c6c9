//! Removes what modes left on the host: all of it for `--cleanup`, and at a start what the other modes left, once our own
//! rules are complete.

use ferrule_plan::ProxyMode;

use crate::{BackendError, InUse, Leftover, backend};

/// Rules go before what they refer to: ipvs mode's sets can be removed only when no iptables rule uses them.
const ORDER: [ProxyMode; 4] =
    [ProxyMode::Nftables, ProxyMode::Iptables, ProxyMode::Ipvs, ProxyMode::Userspace];

/// A mode that is missing above does not compile.
const _: () = assert!(ORDER.len() == ProxyMode::ALL.len(), "every mode is cleaned up");

/// Removes what any mode left and is not in use. Goes on after a failure, and returns the first; but where packets can still
/// get somewhere, what may protect that stays.
pub fn remove_leftovers(in_use: Option<&InUse>) -> (Vec<Leftover>, Result<(), BackendError>) {
    let mut removed = Vec::new();
    let mut result = each_mode(&mut removed, |mode| backend(mode).remove_entry_points(in_use));
    if result.is_ok() {
        result = each_mode(&mut removed, |mode| backend(mode).remove_leftovers(in_use));
    }
    (removed, result)
}

/// Tries every mode, also after a failure, and returns the first.
fn each_mode(
    removed: &mut Vec<Leftover>,
    remove: impl Fn(ProxyMode) -> Result<Vec<Leftover>, BackendError>,
) -> Result<(), BackendError> {
    let mut result = Ok(());
    for mode in ORDER {
        match remove(mode) {
            Ok(leftovers) => removed.extend(leftovers.into_iter().filter(|leftover| leftover.objects > 0)),
            Err(error) => result = result.and(Err(error)),
        }
    }
    result
}
