//! A wall clock that jumps by hours, for one program alone: a library that is loaded before the C library adds an offset to what
//! the kernel says, as it is in a file.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::stand::until;
use crate::table::{Seen, Table};
use crate::victim::Victim;

pub const HOUR: i64 = 3600;

/// The monotonic clocks stay as they are: nothing can set those.
const SOURCE: &str = r"
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile long long *offset;

__attribute__((constructor)) static void begin(void) {
    int file = open(OFFSET_FILE, O_RDONLY | O_CLOEXEC);
    void *mapped = mmap(0, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) offset = mapped;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && clock == CLOCK_REALTIME && offset) time->tv_sec += *offset;
    return result;
}
";

/// A wall clock that a test sets.
pub struct WallClock {
    folder: TempDir,
    offset: File,
}

impl WallClock {
    /// As right as the machine's.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let source = folder.path().join("clock.c");
        fs::write(&source, SOURCE).expect("a source file");
        let offset = File::create(folder.path().join("offset")).expect("a file");
        let clock = Self { folder, offset };
        clock.jump_to(0);
        let define = format!("-DOFFSET_FILE=\"{}\"", clock.folder.path().join("offset").display());
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", &define, "-o"])
            .args([clock.library(), source])
            .status();
        assert!(compiled.is_ok_and(|status| status.success()), "this test needs a C compiler");
        clock
    }

    /// To be named in `LD_PRELOAD`.
    pub fn library(&self) -> PathBuf {
        self.folder.path().join("clock.so")
    }

    /// The variable that makes a program go by this clock.
    pub fn variable(&self) -> OsString {
        let mut variable = OsString::from("LD_PRELOAD=");
        variable.push(self.library());
        variable
    }

    /// Sets it to so many seconds after the machine's.
    pub fn jump_to(&self, seconds: i64) {
        self.offset.write_all_at(&seconds.to_ne_bytes(), 0).expect("the offset");
    }
}

pub fn attack(table: &mut Table) {
    table.group("careless operator");
    table.attack(
        "the wall clock jumps by hours, forth and back",
        "serves on; health, pacing and latencies do not notice",
        jumps,
    );
}

fn jumps() -> Seen {
    let clock = WallClock::new();
    let victim = Victim::with_variable("LD_PRELOAD", clock.library());
    let mut seen = victim.is_well()?;
    until(|| (latencies(&victim).ok()?.count > 0).then_some(()));
    for hours in [5, -5, 24 * 365, -24 * 365, 0] {
        clock.jump_to(hours * HOUR);
        let page = victim.get(10256, "/healthz").map_err(|error| error.to_string())?;
        if hours == 24 * 365 && page.contains(&this_year()) {
            return Err(format!("its clock did not jump: {page}"));
        }
        seen = victim.is_well()?;
        let Latencies { count, sum } = latencies(&victim)?;
        if !(0.0..60.0).contains(&sum) {
            return Err(format!("{hours} h: programming {count} changes took {sum} s in all"));
        }
    }
    // The clock is right again: latencies are measured again.
    let before = latencies(&victim)?.count;
    victim.is_well()?;
    let Latencies { count, sum } = until(|| latencies(&victim).ok().filter(|now| now.count > before));
    let seen = format!("{seen}; {count} latencies, {sum:.1} s in all");
    Ok(seen)
}

/// As in `"currentTime":"2026-`.
fn this_year() -> String {
    let year = jiff::Timestamp::now().strftime("%Y").to_string();
    format!("\"currentTime\":\"{year}-")
}

/// What the metric says of all network programming latencies.
struct Latencies {
    count: u64,
    sum: f64,
}

fn latencies(victim: &Victim) -> Result<Latencies, String> {
    let metrics = victim.get(10249, "/metrics").map_err(|error| error.to_string())?;
    let values = |suffix: &str| {
        let name = format!("kubeproxy_network_programming_duration_seconds_{suffix}");
        let lines = metrics.lines().filter(move |line| line.starts_with(&name));
        lines.filter_map(|line| line.rsplit(' ').next()).map(str::to_owned).collect::<Vec<_>>()
    };
    let count = values("count").iter().filter_map(|value| value.parse::<u64>().ok()).sum();
    let sum = values("sum").iter().filter_map(|value| value.parse::<f64>().ok()).sum();
    Ok(Latencies { count, sum })
}
