//! Which rights a run needs; all others are given up before it begins.

use std::path::{Path, PathBuf};

use ferrule_backends::Rights;
use ferrule_kernel::sandbox::{self, CapabilitySet, Entered, Level, Needs, SandboxError};
use tracing::{info, warn};

use ferrule_config::settings::Settings;

/// What is written beside rules: kernel settings, the lock and the notes of iptables mode, a terminal or nothing.
const WRITABLE: [&str; 5] =
    ["/proc/sys/net", "/proc/self", "/sys/module/nf_conntrack/parameters", "/run", "/dev"];

/// Gives up every right but those this run needs. To be called before any other thread is started.
pub fn enter(settings: &Settings, rights: Rights, read: &[PathBuf]) -> Result<(), SandboxError> {
    let Entered { capabilities, filters_calls, restricts_files } =
        sandbox::enter(settings.sandbox, &needs(settings, rights, read))?;
    let capabilities = capabilities.iter_names().map(|(name, _)| name).collect::<Vec<_>>().join(" ");
    info!(v = 1, capabilities, filters_calls, restricts_files, "Dropped privileges");
    if settings.sandbox == Level::Strict && !restricts_files {
        warn!("Files are not restricted: this kernel has no Landlock, or it is disabled");
    }
    Ok(())
}

fn needs(settings: &Settings, rights: Rights, read: &[PathBuf]) -> Needs {
    let mut capabilities = CapabilitySet::NET_ADMIN | CapabilitySet::NET_BIND_SERVICE;
    capabilities.set(CapabilitySet::NET_RAW, rights.raw_sockets);
    // Only where another user's file must be read: a token or a manifest.
    capabilities.set(CapabilitySet::DAC_READ_SEARCH, !sandbox::can_read_all(read.to_vec()));
    capabilities.set(CapabilitySet::SYS_MODULE, rights.load_modules);
    let mut writable = WRITABLE.map(PathBuf::from).to_vec();
    writable.extend(settings.inspect_socket.as_deref().and_then(Path::parent).map(Path::to_owned));
    Needs { capabilities, writable }
}
