//! The number of online CPUs of the host, regardless of this process's affinity.

use super::HostFiles;

const ONLINE: &str = "/sys/devices/system/cpu/online";

/// The host's online CPUs, or those of this process if the kernel does not list them.
pub fn online(files: &impl HostFiles) -> u32 {
    let counted = files.read(ONLINE).ok().and_then(|text| count(&text));
    let seen = || std::thread::available_parallelism().map_or(1, |cpus| cpus.get().try_into().unwrap_or(1));
    counted.unwrap_or_else(seen)
}

/// The number of CPUs in a list such as `0-3,8,10-11`.
pub fn count(listed: &str) -> Option<u32> {
    let mut count = 0_u32;
    for range in listed.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::count;

    /// Row: server 3.11
    #[test]
    fn lists_of_cpus_are_counted() {
        for (list, cpus) in [
            ("0", Some(1)),
            ("0-1\n", Some(2)),
            ("0-3,8,10-11", Some(7)),
            ("0-511", Some(512)),
            ("", None),
            ("3-1", None),
            ("0-4294967295", None),
            ("all", None),
        ] {
            assert_eq!(count(list), cpus, "{list:?}");
        }
    }
}
