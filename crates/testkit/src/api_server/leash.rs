//! A program that cannot outlive whoever started it.
//!
//! A shell starts the program and reads from a pipe that only this process can write to. When the pipe closes, because
//! the leash was dropped or because this process is gone, the shell kills the program.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// `$1` log, `$2` folder to remove or nothing, then the program and its arguments. Descriptor 3 is the pipe: a shell
/// gives what it starts in the background another input. The output is closed when the program has ended.
const SCRIPT: &str = r#"
log=$1 folder=$2; shift 2
exec 3<&0
"$@" >"$log" 2>&1 3<&- </dev/null &
program=$!
(exec >/dev/null; cat <&3; kill -9 "$program" 2>/dev/null) &
killer=$!
exec 3<&-
wait "$program"
exec >/dev/null
if [ -n "$folder" ]; then
    # Others may still be writing there for a moment.
    wait "$killer"
    until rm -rf "$folder"; do :; done
fi
"#;

/// A program on a leash.
#[derive(Debug)]
pub(super) struct Leash {
    shell: Child,
    log: PathBuf,
}

impl Leash {
    /// Starts a program.
    pub(super) fn start(program: &Path, arguments: &[String], log: &Path) -> io::Result<Self> {
        Self::start_and_remove(program, arguments, log, Path::new(""))
    }

    /// Starts a program whose end takes a folder with it.
    pub(super) fn start_and_remove(
        program: &Path,
        arguments: &[String],
        log: &Path,
        folder: &Path,
    ) -> io::Result<Self> {
        let shell = Command::new("sh")
            .args(["-c", SCRIPT, "leash"])
            .args([log, folder, program])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { shell, log: log.into() })
    }

    /// Waits for the program's end for some time; says whether it came.
    pub(super) fn ends_within(&self, time: Duration) -> bool {
        let Some(output) = &self.shell.stdout else { return true };
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) };
        // Nobody writes to it, so that it is readable means that it was closed.
        let mut wanted = [PollFd::new(output, PollFlags::IN)];
        poll(&mut wanted, Some(&timeout)).is_ok_and(|ready| ready > 0)
    }

    /// The last lines the program wrote.
    pub(super) fn log_end(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    /// Kills the program and waits until it, and its folder, are gone.
    pub(super) fn end(&mut self) {
        drop(self.shell.stdin.take());
        // Its status is of no interest: it was killed.
        let _ = self.shell.wait();
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        self.end();
    }
}
