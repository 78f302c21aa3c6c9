//! Which rights a run needs; all others are given up before it begins.

use std::fs;
use std::path::{Path, PathBuf};

use ferrule_kernel::iptables::{Programs, Variant};
use ferrule_kernel::nft::Family;
use ferrule_kernel::sandbox::{self, CapabilitySet, Entered, Level, Needs, SandboxError};
use tracing::{info, warn};

use crate::settings::{ProxyMode, Settings};

/// Tables of the `legacy` variant of iptables, which only raw sockets can change.
const LEGACY_TABLES: [&str; 2] = ["/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"];

/// What is written beside rules: kernel settings, the lock and the notes of iptables mode, a terminal or nothing.
const WRITABLE: [&str; 5] =
    ["/proc/sys/net", "/proc/self", "/sys/module/nf_conntrack/parameters", "/run", "/dev"];

/// Gives up every right but those this run needs. To be called before any other thread is started.
pub fn enter(settings: &Settings, read: &[PathBuf]) -> Result<(), SandboxError> {
    let Entered { capabilities, filters_calls, restricts_files } =
        sandbox::enter(settings.sandbox, &needs(settings.mode, read))?;
    let capabilities = capabilities.iter_names().map(|(name, _)| name).collect::<Vec<_>>().join(" ");
    info!(v = 1, capabilities, filters_calls, restricts_files, "Gave up all other rights");
    if settings.sandbox == Level::Strict && !restricts_files {
        warn!("Files are not restricted: this kernel has no Landlock, or it is switched off");
    }
    Ok(())
}

fn needs(mode: ProxyMode, read: &[PathBuf]) -> Needs {
    let mut capabilities = CapabilitySet::NET_ADMIN | CapabilitySet::NET_BIND_SERVICE;
    capabilities.set(CapabilitySet::NET_RAW, needs_raw_sockets(mode));
    // Only where somebody else's file must be read: a token or a manifest of another user.
    capabilities.set(CapabilitySet::DAC_READ_SEARCH, !sandbox::can_read_all(read.to_vec()));
    capabilities.set(CapabilitySet::SYS_MODULE, needs_modules(mode));
    Needs { capabilities, writable: WRITABLE.map(PathBuf::from).to_vec() }
}

/// The programs of the `legacy` variant load the module of their tables themselves, where it is not there yet.
fn needs_modules(mode: ProxyMode) -> bool {
    let is_loaded = LEGACY_TABLES.iter().all(|file| Path::new(file).exists());
    let is_legacy = || Programs::of(Family::Ip, Variant::Default).kind() == Some(Variant::Legacy);
    mode == ProxyMode::Iptables && !is_loaded && is_legacy()
}

/// The programs of the `legacy` variant speak through raw sockets: those that iptables mode may run, and those that remove what
/// was left in such tables.
fn needs_raw_sockets(mode: ProxyMode) -> bool {
    let has_tables = |file: &str| fs::read_to_string(file).is_ok_and(|names| !names.trim().is_empty());
    mode == ProxyMode::Iptables || LEGACY_TABLES.into_iter().any(has_tables)
}
