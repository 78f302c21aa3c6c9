//! What the kernel keeps.

use std::fs;

/// What the kernel keeps for itself, in MiB: small objects and large ones. Everything on the machine counts, so only
/// differences mean something, and only on a quiet machine.
pub fn kernel() -> f64 {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    mib(&info, "SUnreclaim:") + mib(&info, "VmallocUsed:")
}

fn mib(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().unwrap_or(0.0);
    kib / 1024.0
}
