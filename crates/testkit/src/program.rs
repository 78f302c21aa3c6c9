//! A program under test in a namespace. Tests can wait for its log lines; it never outlives the test.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::netns::{Namespace, NetError};

/// The kernel counts CPU time in hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

/// A running program.
#[derive(Debug)]
pub struct Program {
    child: Child,
    log: Arc<Log>,
}

/// Its standard error so far.
#[derive(Debug, Default)]
struct Log {
    lines: Mutex<Vec<String>>,
    grown: Condvar,
}

impl Program {
    /// Starts a program in a namespace.
    pub fn start(
        namespace: &Namespace,
        program: &Path,
        arguments: &[impl AsRef<OsStr> + Sync],
    ) -> Result<Self, NetError> {
        let failed = |error: io::Error| NetError::Program {
            program: program.display().to_string(),
            name: namespace.name().to_owned(),
            problem: error.to_string(),
        };
        let command = || {
            Command::new(program)
                .args(arguments)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
        };
        Self::watching(namespace.run(command)?.map_err(failed)?).map_err(failed)
    }

    /// Takes over a child whose standard error is a pipe.
    pub fn watching(mut child: Child) -> io::Result<Self> {
        let log = Arc::new(Log::default());
        if let Some(stderr) = child.stderr.take() {
            let log = Arc::clone(&log);
            let copy = move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    log.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                    log.grown.notify_all();
                }
            };
            thread::Builder::new().name("program-log".into()).spawn(copy)?;
        }
        Ok(Self { child, log })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// CPU time it has used, including that of children it has waited for.
    pub fn processor_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap_or_default();
        let ticks =
            after_name(&stat).split(' ').skip(11).take(4).filter_map(|field| field.parse::<u32>().ok());
        TICK * ticks.sum()
    }

    /// Whether a signal stopped all its threads.
    pub fn is_stopped(&self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.id())).into_iter().flatten().flatten();
        let mut stats = threads.map(|thread| fs::read_to_string(thread.path().join("stat")));
        stats.all(|stat| stat.is_ok_and(|stat| after_name(&stat).starts_with('T')))
    }

    /// Resident memory in MiB: current and peak.
    pub fn resident(&self) -> (f64, f64) {
        (self.mebibytes("VmRSS:"), self.mebibytes("VmHWM:"))
    }

    /// Resident memory in MiB that no file is behind, so without code, which comes and goes as it is used.
    pub fn anonymous_memory(&self) -> f64 {
        self.mebibytes("RssAnon:")
    }

    fn mebibytes(&self, name: &str) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) / 1024.0
    }

    /// All log lines so far.
    pub fn log(&self) -> Vec<String> {
        self.log.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of log lines so far, to wait for later ones.
    pub fn said(&self) -> usize {
        self.log.lines.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Waits for a log line with this text, ignoring the first `after` lines. `None` on timeout.
    pub fn wait_for(&self, text: &str, after: usize, timeout: Duration) -> Option<String> {
        let until = Instant::now() + timeout;
        let mut lines = self.log.lines.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(found) = lines.iter().skip(after).find(|line| line.contains(text)) {
                return Some(found.clone());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let woken = self.log.grown.wait_timeout(lines, left);
            lines = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Sends SIGTERM and waits for the end.
    pub fn terminate(mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.child.wait()
    }

    /// Sends SIGKILL and waits for the end.
    pub fn kill(mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }

    /// Waits until it exits on its own.
    pub fn wait(mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// Waits for the end, after a signal.
    pub fn wait_until_ended(&mut self) {
        // Fails if it was waited for already.
        let _ = self.child.wait();
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let process = process.ok_or_else(|| io::Error::other("a process without an id"))?;
        Ok(kill_process(process, signal)?)
    }
}

/// The fields of a `stat` file from the state on; the name before them may hold anything.
fn after_name(stat: &str) -> &str {
    stat.rsplit_once(") ").map_or("", |(_, rest)| rest)
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
