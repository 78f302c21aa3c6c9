//! Capabilities of this thread, which threads and programs that it starts inherit.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
};

use super::SandboxError;

/// The capabilities this thread has.
pub fn present() -> CapabilitySet {
    capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective)
}

/// Gives up every capability but these; gives those that are left.
pub fn keep_only(wanted: CapabilitySet) -> Result<CapabilitySet, SandboxError> {
    let refused =
        |source: rustix::io::Errno| SandboxError::Refused { what: "capabilities", source: source.into() };
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
/// cannot be read with them either.
pub fn can_read_all(paths: &[PathBuf]) -> bool {
    let Ok(before) = capabilities(None) else { return true };
    let overriding = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    let without = CapabilitySets { effective: before.effective - overriding, ..before };
    if set_capabilities(None, without).is_err() {
        return true;
    }
    let can_read = paths.iter().all(|path| !is_denied(path));
    // Those that are permitted can always be had back.
    let _ = set_capabilities(None, before);
    can_read
}

fn is_denied(path: &PathBuf) -> bool {
    let denied = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    match fs::read_dir(path) {
        Ok(mut entries) => entries.any(|entry| {
            // Pipes and the like are not opened: that might wait for somebody.
            let file = entry.ok().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
            file.is_some_and(|file| File::open(file.path()).is_err_and(denied))
        }),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => File::open(path).is_err_and(denied),
        Err(error) => denied(error),
    }
}
