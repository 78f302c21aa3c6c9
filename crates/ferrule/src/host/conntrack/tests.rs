//! The rows of the specification, on files in memory.

use std::collections::BTreeMap;
use std::io;

use super::*;
use ferrule_model::with_causes;

/// Files in memory, some of them read-only.
#[derive(Default)]
struct Memory {
    files: BTreeMap<String, String>,
    read_only: Vec<&'static str>,
    writes: Vec<(String, String)>,
}

impl HostFiles for Memory {
    fn read(&self, path: &str) -> Result<String, SysctlError> {
        let missing = || SysctlError::Read { path: path.into(), source: io::ErrorKind::NotFound.into() };
        self.files.get(path).cloned().ok_or_else(missing)
    }

    fn write(&mut self, path: &str, value: &str) -> Result<(), SysctlError> {
        if self.read_only.iter().any(|name| path.ends_with(name)) {
            let source = io::ErrorKind::ReadOnlyFilesystem.into();
            return Err(SysctlError::Write { path: path.into(), value: value.into(), source });
        }
        self.writes.push((path.to_owned(), value.to_owned()));
        self.files.insert(path.to_owned(), value.to_owned());
        Ok(())
    }
}

impl Memory {
    fn with(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned()));
        Self { files: files.collect(), ..Self::default() }
    }

    /// What was written, by the last part of the path.
    fn written(&self) -> Vec<(&str, &str)> {
        let name = |path: &'_ str| path.rsplit_once('/').map_or(0, |(folder, _)| folder.len() + 1);
        self.writes.iter().map(|(path, value)| (&path[name(path)..], value.as_str())).collect()
    }
}

fn limits(max_per_core: u32, min: u32) -> ConntrackSettings {
    let max_per_core = if max_per_core == 0 { KernelValue::Keep } else { KernelValue::Set(max_per_core) };
    ConntrackSettings { max_per_core, min, ..ConntrackSettings::kept() }
}

fn seconds(count: u64) -> KernelValue<Duration> {
    KernelValue::Set(Duration::from_secs(count))
}

/// Row: server 8.7 #1-#5
#[test]
fn the_limit_scales_with_cpus_between_a_minimum_and_a_ceiling() {
    for (max_per_core, min, cpus, max) in [
        (0, 0, 4, 0),
        (67_890, 1, 4, 271_560),
        (67_890, 1, 64, 1_048_576),
        (1, 123_456, 4, 123_456),
        (0, 123_456, 4, 0),
        (32_768, 0, 512, 1_048_576),
        (32_768, 2_000_000, 512, 1_048_576),
        (32_768, 131_072, 2, 131_072),
        (u32::MAX, 0, 512, 1_048_576),
    ] {
        assert_eq!(max_connections(&limits(max_per_core, min), cpus), max, "{max_per_core}/{min}/{cpus}");
    }
}

/// Row: server 8.7 #6-#8
#[test]
fn each_setting_alone_is_one_write() {
    let check = |settings: ConntrackSettings, written: &[(&str, &str)]| {
        let mut files = Memory::default();
        assert!(set_conntrack(&settings, 2, &mut files).is_empty());
        assert_eq!(files.written(), written);
    };
    check(ConntrackSettings::kept(), &[]);
    check(limits(0, 123_456), &[]);
    let established = ConntrackSettings { tcp_established_timeout: seconds(5), ..ConntrackSettings::kept() };
    check(established, &[("nf_conntrack_tcp_timeout_established", "5")]);
    let close_wait = ConntrackSettings { tcp_close_wait_timeout: seconds(3600), ..ConntrackSettings::kept() };
    check(close_wait, &[("nf_conntrack_tcp_timeout_close_wait", "3600")]);
    check(
        ConntrackSettings { tcp_be_liberal: true, ..ConntrackSettings::kept() },
        &[("nf_conntrack_tcp_be_liberal", "1")],
    );
    let truncated = KernelValue::Set(Duration::from_millis(5999));
    check(
        ConntrackSettings { udp_timeout: truncated, ..ConntrackSettings::kept() },
        &[("nf_conntrack_udp_timeout", "5")],
    );
    let stream = ConntrackSettings { udp_stream_timeout: seconds(5), ..ConntrackSettings::kept() };
    check(stream, &[("nf_conntrack_udp_timeout_stream", "5")]);
}

fn everything() -> ConntrackSettings {
    ConntrackSettings {
        tcp_established_timeout: seconds(86_400),
        tcp_close_wait_timeout: seconds(3600),
        tcp_be_liberal: true,
        udp_timeout: seconds(30),
        udp_stream_timeout: seconds(120),
        ..limits(32_768, 131_072)
    }
}

/// Row: server 3.11
#[test]
fn all_are_written_in_order_and_none_that_is_right_already() {
    let mut files = Memory::with(&[(HASH_SIZE, "1024")]);
    assert!(set_conntrack(&everything(), 8, &mut files).is_empty());
    let written = [
        ("nf_conntrack_max", "262144"),
        ("hashsize", "65536"),
        ("nf_conntrack_tcp_timeout_established", "86400"),
        ("nf_conntrack_tcp_timeout_close_wait", "3600"),
        ("nf_conntrack_tcp_be_liberal", "1"),
        ("nf_conntrack_udp_timeout", "30"),
        ("nf_conntrack_udp_timeout_stream", "120"),
    ];
    assert_eq!(files.written(), written);
    files.writes.clear();
    assert!(set_conntrack(&everything(), 8, &mut files).is_empty());
    assert_eq!(files.written(), [], "a second run needs no rights");
}

/// Row: server 3.11
#[test]
fn the_hash_table_never_shrinks() {
    for (now, written) in [("65535", true), ("65536", false), ("1000000", false)] {
        let mut files = Memory::with(&[(HASH_SIZE, now)]);
        assert!(set_conntrack(&limits(32_768, 0), 8, &mut files).is_empty());
        assert_eq!(files.written().contains(&("hashsize", "65536")), written, "{now}");
    }
}

#[test]
fn a_user_who_cannot_read_the_size_of_the_table_reads_it_elsewhere() {
    for (now, unwritten) in [("65536", 0), ("1024", 1)] {
        let mut files = Memory { read_only: vec!["hashsize"], ..Memory::with(&[(HASH_SIZE_FOR_ALL, now)]) };
        assert_eq!(set_conntrack(&limits(32_768, 262_144), 2, &mut files).len(), unwritten, "{now}");
    }
}

/// Row: server 8.7 #9
///
/// kube-proxy exits here; Ferrule logs it and goes on.
#[test]
fn what_cannot_be_written_is_returned_and_the_rest_is_written() {
    let mut files = Memory { read_only: vec!["_max", "_close_wait"], ..Memory::with(&[(HASH_SIZE, "1")]) };
    let unwritten = set_conntrack(&everything(), 8, &mut files);
    let failed: Vec<_> = unwritten.iter().map(|error| with_causes(error)).collect();
    assert!(
        failed[0].starts_with("setting /proc/sys/net/netfilter/nf_conntrack_max to 262144: "),
        "{failed:?}"
    );
    assert!(failed[1].contains("close_wait"), "{failed:?}");
    assert_eq!(failed.len(), 2, "without the limit there is no use for a larger table: {failed:?}");
    assert_eq!(files.written().len(), 4);

    let mut files = Memory::default();
    let unwritten = set_conntrack(&limits(32_768, 0), 8, &mut files);
    assert_eq!(unwritten.len(), 1);
    assert!(unwritten[0].to_string().contains(HASH_SIZE), "the module is not loaded");
}
