//! What a process costs, and what the kernel keeps.

use std::fs;
use std::time::Duration;

/// The kernel counts CPU time in hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

/// CPU time of a process and of the programs it ran and waited for.
pub fn cpu(process: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks = after_name.split(' ').skip(11).take(4).filter_map(|field| field.parse::<u32>().ok());
    TICK * ticks.sum()
}

/// Resident memory of a process in MiB, now and at most.
pub fn resident(process: u32) -> (f64, f64) {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    (mib(&status, "VmRSS:"), mib(&status, "VmHWM:"))
}

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
