//! The `process_*` metrics, read from `/proc` at each scrape.

use std::fs;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use prometheus::{Counter, Gauge, Opts, Registry, Result};

/// The `process_*` metrics.
#[derive(Debug)]
pub struct ProcessMetrics {
    cpu: Counter,
    start: Gauge,
    resident: Gauge,
    virtual_size: Gauge,
    virtual_limit: Gauge,
    open_files: Gauge,
    max_files: Gauge,
    received: Counter,
    sent: Counter,
}

impl ProcessMetrics {
    /// Registers them.
    pub fn new(registry: &Registry) -> Result<Self> {
        let counter = |name: &str, help: &str| -> Result<Counter> {
            let counter = Counter::with_opts(Opts::new(name, help))?;
            registry.register(Box::new(counter.clone()))?;
            Ok(counter)
        };
        let gauge = |name: &str, help: &str| -> Result<Gauge> {
            let gauge = Gauge::with_opts(Opts::new(name, help))?;
            registry.register(Box::new(gauge.clone()))?;
            Ok(gauge)
        };
        Ok(Self {
            cpu: counter("process_cpu_seconds_total", "CPU time spent in user and system, in seconds")?,
            start: gauge(
                "process_start_time_seconds",
                "When the process started, in seconds since the epoch",
            )?,
            resident: gauge("process_resident_memory_bytes", "Resident memory, in bytes")?,
            virtual_size: gauge("process_virtual_memory_bytes", "Virtual memory, in bytes")?,
            virtual_limit: gauge(
                "process_virtual_memory_max_bytes",
                "Most virtual memory allowed, in bytes",
            )?,
            open_files: gauge("process_open_fds", "Open file descriptors")?,
            max_files: gauge("process_max_fds", "Most open file descriptors allowed")?,
            received: counter("process_network_receive_bytes_total", "Bytes received over the network")?,
            sent: counter("process_network_transmit_bytes_total", "Bytes sent over the network")?,
        })
    }

    /// Updates them; a value that cannot be read stays as it was.
    pub fn refresh(&self) {
        if let Some(stat) = read("/proc/self/stat").as_deref().and_then(Stat::parse) {
            set(&self.cpu, stat.cpu_seconds);
            self.resident.set(stat.resident);
            self.virtual_size.set(stat.virtual_size);
            // Only once: the boot time is computed from the wall clock, and changing the clock does not restart the process.
            if self.start.get() == 0.0
                && let Some(boot) = boot_time()
            {
                self.start.set(boot + stat.started_after_boot);
            }
        }
        if let Some(limits) = read("/proc/self/limits") {
            self.max_files.set(limit(&limits, "Max open files"));
            self.virtual_limit.set(limit(&limits, "Max address space"));
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            // Listing the directory has one open itself.
            self.open_files
                .set(f64::from(u32::try_from(files.count().saturating_sub(1)).unwrap_or(u32::MAX)));
        }
        if let Some((received, sent)) = read("/proc/self/net/netstat").as_deref().and_then(octets) {
            set(&self.received, received);
            set(&self.sent, sent);
        }
    }
}

fn set(counter: &Counter, value: f64) {
    counter.inc_by((value - counter.get()).max(0.0));
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// When this process started, by both clocks; now, if that cannot be read.
pub fn started() -> (Timestamp, Instant) {
    let (now, instant) = (Timestamp::now(), Instant::now());
    let stat = read("/proc/self/stat").as_deref().and_then(Stat::parse);
    let since_epoch = boot_time().zip(stat).map(|(boot, stat)| boot + stat.started_after_boot);
    let age = since_epoch
        .map(|start| now.as_duration().as_secs_f64() - start)
        .and_then(|age| Duration::try_from_secs_f64(age).ok())
        .unwrap_or_default();
    match (now.checked_sub(age), instant.checked_sub(age)) {
        (Ok(shown), Some(started)) => (shown, started),
        _ => (now, instant),
    }
}

/// The used fields of `/proc/self/stat`.
#[derive(Debug, PartialEq)]
struct Stat {
    cpu_seconds: f64,
    started_after_boot: f64,
    virtual_size: f64,
    resident: f64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The name may contain anything, so fields are counted behind it, from the third.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let per_second = f64::from(u32::try_from(rustix::param::clock_ticks_per_second()).ok()?);
        let page = f64::from(u32::try_from(rustix::param::page_size()).ok()?);
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) / per_second,
            started_after_boot: field(22)? / per_second,
            virtual_size: field(23)?,
            resident: field(24)? * page,
        })
    }
}

fn boot_time() -> Option<f64> {
    read("/proc/stat")?.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// The soft limit; "unlimited" is shown as in Go, as the largest number.
fn limit(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    match line.and_then(|line| line.split_whitespace().next()) {
        Some("unlimited") => 18_446_744_073_709_551_615.0,
        Some(number) => number.parse().unwrap_or(0.0),
        None => 0.0,
    }
}

/// Bytes received and sent, from the pair of lines that begin with `IpExt:`.
fn octets(text: &str) -> Option<(f64, f64)> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("IpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let value = |wanted: &str| {
        let at = names.split_whitespace().position(|name| name == wanted)?;
        values.split_whitespace().nth(at)?.parse().ok()
    };
    Some((value("InOctets")?, value("OutOctets")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_a_strange_name_is_read() {
        let text = "7 (a) b (c)) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 4 0 1000 8192 3 1 1 1 0";
        let stat = Stat::parse(text).expect("a stat line");
        assert!((stat.cpu_seconds - 3.0).abs() < 1e-9, "{stat:?}");
        assert!((stat.started_after_boot - 10.0).abs() < 1e-9, "{stat:?}");
        assert!((stat.virtual_size - 8192.0).abs() < 1e-9, "{stat:?}");
        assert_eq!(Stat::parse("no stat line"), None);
    }

    #[test]
    fn limits_and_octets_are_found_by_name() {
        let limits = "Limit   Soft Limit  Hard Limit Units\nMax open files  1024  4096  files\nMax address space unlimited unlimited bytes\n";
        assert!((limit(limits, "Max open files") - 1024.0).abs() < 1e-9);
        assert!(limit(limits, "Max address space") > 1e19);
        let netstat = "TcpExt: A B\nTcpExt: 1 2\nIpExt: InOctets X OutOctets\nIpExt: 7 8 9\n";
        assert_eq!(octets(netstat), Some((7.0, 9.0)));
    }

    #[test]
    fn the_start_is_the_one_that_metrics_show() {
        let registry = Registry::new();
        let metrics = ProcessMetrics::new(&registry).expect("metrics");
        metrics.refresh();
        let (shown, started) = started();
        assert!((shown.as_duration().as_secs_f64() - metrics.start.get()).abs() < 1.0, "{shown}");
        let age = Timestamp::now().duration_since(shown).as_secs_f64();
        assert!((age - started.elapsed().as_secs_f64()).abs() < 1.0, "{age}");
    }
}
