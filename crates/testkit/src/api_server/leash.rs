//! A child program that cannot outlive this process.
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
# Ctrl-C signals the whole process group. This shell must survive it to kill the program.
trap '' HUP INT TERM
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
    # The program may still be writing there for a moment.
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
    pub(super) fn start(program: &Path, arguments: &[String], log: &Path) -> io::Result<Self> {
        Self::start_and_remove(program, arguments, log, Path::new(""))
    }

    /// Starts a program; its end removes a folder.
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

    /// Waits up to `time` for the program to end; returns whether it did.
    pub(super) fn ends_within(&self, time: Duration) -> bool {
        let Some(output) = &self.shell.stdout else { return true };
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) };
        // Nothing is ever written to it, so it becomes readable only when it is closed.
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
        // The status does not matter: it was killed.
        let _ = self.shell.wait();
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, Signal, kill_process, test_kill_process};

    use super::*;

    fn process(id: u32) -> Pid {
        i32::try_from(id).ok().and_then(Pid::from_raw).expect("a process")
    }

    #[test]
    fn a_signal_to_the_process_group_does_not_save_the_program() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        let script = ["-c".to_owned(), "echo $$; exec sleep 600".to_owned()];
        let mut leash = Leash::start(Path::new("/bin/sh"), &script, &log).expect("a leash");
        let program =
            std::iter::repeat_with(|| leash.log_end()).take(1_000_000).find_map(|said| said.parse().ok());
        let program = process(program.expect("its number"));
        kill_process(process(leash.shell.id()), Signal::TERM).expect("the shell is there");
        assert!(test_kill_process(program).is_ok());
        leash.end();
        assert!(test_kill_process(program).is_err(), "it outlived its leash");
    }
}
