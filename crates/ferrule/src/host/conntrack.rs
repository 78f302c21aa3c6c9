//! Conntrack's limits and timeouts: what to write, in which order, and what could not be written.

use std::time::Duration;

use ferrule_config::settings::{ConntrackSettings, KernelValue};
use ferrule_kernel::sysctl::SysctlError;

use super::HostFiles;

/// The size of conntrack's hash table, of which there is one on the whole host.
const HASH_SIZE: &str = "/sys/module/nf_conntrack/parameters/hashsize";
/// The same for reading, by any user; [`HASH_SIZE`] is root's alone.
const HASH_SIZE_FOR_ALL: &str = "/proc/sys/net/netfilter/nf_conntrack_buckets";
const FOLDER: &str = "/proc/sys/net/netfilter";
/// kube-proxy's upper bound for a limit scaled by CPUs.
const MAX_SCALED_CONNECTIONS: u32 = 1_048_576;
/// kube-proxy's ratio of connections to entries of the hash table.
const CONNECTIONS_PER_ENTRY: u32 = 4;

/// The limit on connections; 0 leaves the kernel's.
fn max_connections(settings: &ConntrackSettings, cpus: u32) -> u32 {
    let KernelValue::Set(per_core) = settings.max_per_core else { return 0 };
    match per_core.saturating_mul(cpus) {
        0 => 0,
        // Even if a larger minimum is asked for, as in kube-proxy.
        scaled if scaled > MAX_SCALED_CONNECTIONS => MAX_SCALED_CONNECTIONS,
        scaled => scaled.max(settings.min),
    }
}

/// Writes what differs; continues after a failure, since the settings are independent.
pub fn set_conntrack(
    settings: &ConntrackSettings,
    cpus: u32,
    files: &mut impl HostFiles,
) -> Vec<SysctlError> {
    let mut unwritten = Vec::new();
    let max = max_connections(settings, cpus);
    if max > 0 {
        match ensure(files, "nf_conntrack_max", &max.to_string()) {
            // Without the limit a larger table is useless.
            Ok(()) => unwritten.extend(ensure_hash_size(files, max / CONNECTIONS_PER_ENTRY).err()),
            Err(failed) => unwritten.push(failed),
        }
    }
    for (name, value) in timeouts_and_switches(settings) {
        unwritten.extend(value.and_then(|value| ensure(files, name, &value).err()));
    }
    unwritten
}

fn timeouts_and_switches(settings: &ConntrackSettings) -> [(&'static str, Option<String>); 5] {
    let seconds = |value: KernelValue<Duration>| match value {
        KernelValue::Keep => None,
        KernelValue::Set(time) => Some(time.as_secs().to_string()),
    };
    [
        ("nf_conntrack_tcp_timeout_established", seconds(settings.tcp_established_timeout)),
        ("nf_conntrack_tcp_timeout_close_wait", seconds(settings.tcp_close_wait_timeout)),
        ("nf_conntrack_tcp_be_liberal", settings.tcp_be_liberal.then(|| "1".to_owned())),
        ("nf_conntrack_udp_timeout", seconds(settings.udp_timeout)),
        ("nf_conntrack_udp_timeout_stream", seconds(settings.udp_stream_timeout)),
    ]
}

/// A file that has the value already is not written: it may be read-only.
fn ensure(files: &mut impl HostFiles, name: &str, value: &str) -> Result<(), SysctlError> {
    let path = format!("{FOLDER}/{name}");
    if files.read(&path).is_ok_and(|now| now == value) {
        return Ok(());
    }
    files.write(&path, value)
}

/// The table only ever grows.
fn ensure_hash_size(files: &mut impl HostFiles, entries: u32) -> Result<(), SysctlError> {
    let now = files.read(HASH_SIZE).or_else(|error| files.read(HASH_SIZE_FOR_ALL).map_err(|_| error))?;
    if now.trim().parse::<u32>().is_ok_and(|now| now >= entries) {
        return Ok(());
    }
    files.write(HASH_SIZE, &entries.to_string())
}

#[cfg(test)]
mod tests;
