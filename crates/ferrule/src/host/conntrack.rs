//! Conntrack's limits and timeouts: what to write, in which order, and what could not be written.

use std::fmt;
use std::time::Duration;

use ferrule_kernel::sysctl::SysctlError;

use super::HostFiles;
use crate::causes::with_causes;
use crate::settings::{ConntrackSettings, KernelValue};

/// The size of conntrack's hash table, of which there is one on the whole host.
pub const HASH_SIZE: &str = "/sys/module/nf_conntrack/parameters/hashsize";
const FOLDER: &str = "/proc/sys/net/netfilter";
/// More than this is never asked for by counting CPUs.
const MOST_CONNECTIONS: u32 = 1_048_576;
/// Entries of the hash table hold this many connections each.
const CONNECTIONS_PER_ENTRY: u32 = 4;

/// A setting that stays as it was.
#[derive(Debug)]
pub struct Unwritten {
    /// The file.
    pub path: String,
    /// What it was to become; nothing if that depended on what could not be read.
    pub value: Option<String>,
    /// Why.
    pub error: SysctlError,
}

impl fmt::Display for Unwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&with_causes(&self.error))
    }
}

/// How many connections conntrack is to know at most; 0 leaves it alone.
pub fn max_connections(settings: &ConntrackSettings, cpus: u32) -> u32 {
    let KernelValue::Set(per_core) = settings.max_per_core else { return 0 };
    match per_core.saturating_mul(cpus) {
        0 => 0,
        // Even if a larger minimum is asked for, as in kube-proxy.
        scaled if scaled > MOST_CONNECTIONS => MOST_CONNECTIONS,
        scaled => scaled.max(settings.min),
    }
}

/// Writes what differs; goes on after a failure, since each setting helps by itself.
pub fn set_conntrack(settings: &ConntrackSettings, cpus: u32, files: &mut impl HostFiles) -> Vec<Unwritten> {
    let mut unwritten = Vec::new();
    let max = max_connections(settings, cpus);
    if max > 0 {
        match ensure(files, "nf_conntrack_max", max.to_string()) {
            // Without the limit there is no use for the table.
            Ok(()) => unwritten.extend(ensure_hash_size(files, max / CONNECTIONS_PER_ENTRY).err()),
            Err(failed) => unwritten.push(failed),
        }
    }
    for (name, value) in timeouts_and_switches(settings) {
        unwritten.extend(value.and_then(|value| ensure(files, name, value).err()));
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

/// What has the value already is not written: the file may be read-only.
fn ensure(files: &mut impl HostFiles, name: &str, value: String) -> Result<(), Unwritten> {
    let path = format!("{FOLDER}/{name}");
    if files.read(&path).is_ok_and(|now| now == value) {
        return Ok(());
    }
    let written = files.write(&path, &value);
    written.map_err(|error| Unwritten { path, value: Some(value), error })
}

/// The table only ever grows.
fn ensure_hash_size(files: &mut impl HostFiles, entries: u32) -> Result<(), Unwritten> {
    let failed = |value, error| Unwritten { path: HASH_SIZE.to_owned(), value, error };
    let now = files.read(HASH_SIZE).map_err(|error| failed(None, error))?;
    if now.trim().parse::<u32>().is_ok_and(|now| now >= entries) {
        return Ok(());
    }
    let value = entries.to_string();
    files.write(HASH_SIZE, &value).map_err(|error| failed(Some(value), error))
}

#[cfg(test)]
mod tests;
