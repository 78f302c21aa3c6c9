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

/// How long files may take to say who may read them.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// The capabilities this thread has.
pub fn present() -> CapabilitySet {
    capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective)
}

/// Gives up every capability but these; gives those that are left.
pub fn keep_only(wanted: CapabilitySet) -> Result<CapabilitySet, SandboxError> {
    let refused = |source: Errno| SandboxError::Refused { what: "capabilities", source: source.into() };
    let before = capabilities(None).map_err(refused)?;
    for capability in CapabilitySet::all().iter().filter(|capability| !wanted.contains(*capability)) {
        forget(capability, before.effective).map_err(refused)?;
    }
    let left = before.permitted & wanted;
    let inheritable = before.inheritable & wanted;
    set_capabilities(None, CapabilitySets { effective: left, permitted: left, inheritable })
        .map_err(refused)?;
    Ok(left)
}

/// Sees to it that no program that is run gets a capability back.
fn forget(capability: CapabilitySet, present: CapabilitySet) -> rustix::io::Result<()> {
    // Kernels do not know of later ones.
    let Ok(is_bound) = capability_is_in_bounding_set(capability) else { return Ok(()) };
    // Without CAP_SETPCAP it stays in the bounding set; programs cannot get it from there all the same: see no_new_privs.
    if is_bound && present.contains(CapabilitySet::SETPCAP) {
        remove_capability_from_bounding_set(capability)?;
    }
    configure_capability_in_ambient_set(capability, false)
}

/// Whether files, and all files in folders, can be read without the capabilities that read everything. One that is not there
/// cannot be read with them either. Nothing is opened, and one that does not answer in time may be any.
pub fn can_read_all(paths: Vec<PathBuf>) -> bool {
    let (answer, answered) = mpsc::channel();
    let work = move || {
        let overriding = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
        // Of this thread alone, which ends with its answer.
        let without =
            capabilities(None).map(|sets| CapabilitySets { effective: sets.effective - overriding, ..sets });
        let is_without = without.and_then(|sets| set_capabilities(None, sets)).is_ok();
        // Nobody waits any more if it took too long.
        let _ = answer.send(is_without && paths.iter().all(|path| !is_denied(path)));
    };
    let begun = thread::Builder::new().name("rights".to_owned()).spawn(work);
    begun.is_ok() && answered.recv_timeout(ANSWER_TIMEOUT).unwrap_or(false)
}

fn is_denied(path: &Path) -> bool {
    let denied = |path: &Path| accessat(CWD, path, Access::READ_OK, AtFlags::EACCESS) == Err(Errno::ACCESS);
    denied(path)
        || fs::read_dir(path).is_ok_and(|entries| entries.flatten().any(|entry| denied(&entry.path())))
}
