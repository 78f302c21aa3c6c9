//! Capabilities of this thread, which threads and programs that it starts inherit.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
};

use super::SandboxError;

/// How long file systems may take to report permissions.
const ACCESS_TIMEOUT: Duration = Duration::from_secs(2);

/// The effective capabilities of this thread.
pub fn present() -> CapabilitySet {
    capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective)
}

/// Makes every capability effective that this thread may have. A program whose file has capabilities, run by a user who is not root, may
/// have them without that; this way the file also runs, for its version say, where a container may not have any.
pub fn raise_permitted() {
    let Ok(sets) = capabilities(None) else { return };
    if sets.effective != sets.permitted {
        // What stays ineffective is missed by what needs it, and reported there.
        let _ = set_capabilities(None, CapabilitySets { effective: sets.permitted, ..sets });
    }
}

/// Drops every capability but these and returns the remaining ones.
pub fn keep_only(wanted: CapabilitySet) -> Result<CapabilitySet, SandboxError> {
    let rejected = |source: Errno| SandboxError::Rejected { what: "capabilities", source: source.into() };
    let before = capabilities(None).map_err(rejected)?;
    for capability in CapabilitySet::all().iter().filter(|capability| !wanted.contains(*capability)) {
        forget(capability, before.effective).map_err(rejected)?;
    }
    let left = before.permitted & wanted;
    let inheritable = before.inheritable & wanted;
    set_capabilities(None, CapabilitySets { effective: left, permitted: left, inheritable })
        .map_err(rejected)?;
    Ok(left)
}

/// Makes sure that no program regains the capability.
fn forget(capability: CapabilitySet, present: CapabilitySet) -> rustix::io::Result<()> {
    // Older kernels do not know all capabilities.
    let Ok(is_bound) = capability_is_in_bounding_set(capability) else { return Ok(()) };
    // Without CAP_SETPCAP it stays in the bounding set; no_new_privs still keeps programs from regaining it.
    if is_bound && present.contains(CapabilitySet::SETPCAP) {
        remove_capability_from_bounding_set(capability)?;
    }
    configure_capability_in_ambient_set(capability, false)
}

/// Whether these files, and all files in these folders, can be read without the capabilities that override permissions. A missing
/// file counts as readable; after a timeout the result is `false`. Opens nothing.
pub fn can_read_all(paths: Vec<PathBuf>) -> bool {
    let (answer, answered) = mpsc::channel();
    let work = move || {
        let overriding = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
        // Only of this thread, which ends with its result.
        let without =
            capabilities(None).map(|sets| CapabilitySets { effective: sets.effective - overriding, ..sets });
        let is_without = without.and_then(|sets| set_capabilities(None, sets)).is_ok();
        // Fails if the caller stopped waiting.
        let _ = answer.send(is_without && paths.iter().all(|path| !is_denied(path)));
    };
    let begun = thread::Builder::new().name("rights".to_owned()).spawn(work);
    begun.is_ok() && answered.recv_timeout(ACCESS_TIMEOUT).unwrap_or(false)
}

fn is_denied(path: &Path) -> bool {
    let denied = |path: &Path| accessat(CWD, path, Access::READ_OK, AtFlags::EACCESS) == Err(Errno::ACCESS);
    denied(path)
        || fs::read_dir(path).is_ok_and(|entries| entries.flatten().any(|entry| denied(&entry.path())))
}
