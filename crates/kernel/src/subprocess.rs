//! Other programs: looked up in absolute folders only, run with a clean environment, and never left behind.
//!
//! Every program that the whole binary runs goes through [`run`], except credential plugins of a kubeconfig, which the
//! client library starts. Each is the leader of a process group of its own, so that it can be ended with everything it started:
//! by its [`Cancel`] token, by its time limit, and all at once by [`end_all`]. If this process is killed, the kernel ends them.
//!
//! What programs print is for the caller to understand.

mod lookup;

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

pub(crate) use lookup::absolute;
pub use lookup::find;

/// A program to be run to its end.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Its name, without a folder.
    pub program: &'a str,
    /// Its arguments.
    pub arguments: &'a [&'a str],
    /// What it reads from its standard input.
    pub input: &'a str,
    /// After this it is ended.
    pub limit: Duration,
    /// What ends it earlier.
    pub cancel: Option<&'a Cancel>,
}

/// Why a program did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No absolute folder of `PATH` has it.
    #[error("there is no such program in the absolute folders of PATH")]
    NotFound,
    /// Somebody wanted it to end.
    #[error("it was ended before it was done")]
    Cancelled,
    /// It took too long.
    #[error("it did not end within {} seconds", .0.as_secs_f32())]
    TimedOut(Duration),
    /// It could not be started.
    #[error("starting it")]
    Start(#[source] io::Error),
    /// It was started, and what became of it is not known.
    #[error("waiting for it")]
    Wait(#[source] io::Error),
}

impl RunError {
    /// Whether it surely did nothing, since it never ran.
    pub fn never_ran(&self) -> bool {
        match self {
            Self::NotFound | Self::Start(_) => true,
            Self::Cancelled | Self::TimedOut(_) | Self::Wait(_) => false,
        }
    }
}

/// Runs a program to its end; what it printed, and how it ended. After [`end_all`] it does not return.
pub fn run(run: &Run<'_>) -> Result<Output, RunError> {
    let path = find(run.program).ok_or(RunError::NotFound)?;
    let mut command = Command::new(path);
    command.args(run.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env_clear().envs(lookup::environment()).current_dir("/").process_group(0);
    crate::sys::kill_with_parent(&mut command);
    let (child, group) = start(&mut command, run.cancel)?;
    let mut running = Running { child, group, cancel: run.cancel };
    let output = running.attend(run);
    if registry().is_closed {
        wait_for_the_end();
    }
    let output = output?;
    if run.cancel.is_some_and(Cancel::is_cancelled) {
        return Err(RunError::Cancelled);
    }
    Ok(output)
}

/// Nobody is to act on what became of a program that was ended because this process is about to: he might end it with a failure.
fn wait_for_the_end() -> ! {
    loop {
        std::thread::park();
    }
}

/// Ends every program that runs, with everything it started, and lets none begin: this process is about to end, and whoever waits for
/// a program waits until then.
pub fn end_all() {
    let mut registry = registry();
    registry.is_closed = true;
    for group in &registry.groups {
        end_group(*group);
    }
}

/// The same from a thread that must not wait for a lock: it may hold it itself.
pub fn end_all_at_once() {
    let Ok(registry) = REGISTRY.try_lock() else { return };
    for group in &registry.groups {
        end_group(*group);
    }
}

/// Ends a program from another thread, now or as soon as it begins.
#[derive(Debug, Default)]
pub struct Cancel(Mutex<CancelState>);

#[derive(Debug, Default)]
struct CancelState {
    is_cancelled: bool,
    group: Option<i32>,
}

impl Cancel {
    /// Ends what runs under this token, and whatever is started under it later.
    pub fn cancel(&self) {
        let mut state = self.state();
        state.is_cancelled = true;
        if let Some(group) = state.group {
            end_group(group);
        }
    }

    /// Whether it was asked to end.
    pub fn is_cancelled(&self) -> bool {
        self.state().is_cancelled
    }

    fn state(&self) -> MutexGuard<'_, CancelState> {
        // Two plain values are never left half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The process groups that run now. A group is in here only while its leader was not waited for: until then its number
/// cannot become another's, and a signal cannot hit a stranger.
static REGISTRY: Mutex<Registry> = Mutex::new(Registry { is_closed: false, groups: BTreeSet::new() });

struct Registry {
    is_closed: bool,
    groups: BTreeSet<i32>,
}

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts it in one step with its being known, so that nothing that ends programs can miss it.
fn start(command: &mut Command, cancel: Option<&Cancel>) -> Result<(Child, i32), RunError> {
    let mut registry = registry();
    if registry.is_closed {
        drop(registry);
        wait_for_the_end();
    }
    let mut state = cancel.map(Cancel::state);
    if state.as_ref().is_some_and(|state| state.is_cancelled) {
        return Err(RunError::Cancelled);
    }
    let child = command.spawn().map_err(RunError::Start)?;
    let group = Pid::from_child(&child).as_raw_nonzero().get();
    registry.groups.insert(group);
    if let Some(state) = &mut state {
        state.group = Some(group);
    }
    Ok((child, group))
}

fn end_group(group: i32) {
    if let Some(group) = Pid::from_raw(group) {
        // A group that is gone already is what was wanted.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// A program that was started and not waited for.
struct Running<'a> {
    child: Child,
    group: i32,
    cancel: Option<&'a Cancel>,
}

impl Running<'_> {
    /// Hands a program its input while its output is read, so that neither waits for the other. It ends in time, or is ended.
    fn attend(&mut self, run: &Run<'_>) -> Result<Output, RunError> {
        let (stdin, stdout, stderr) =
            (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take());
        let (group, limit) = (self.group, run.limit);
        let (ended, has_ended) = mpsc::channel::<()>();
        let attended = std::thread::scope(|scope| {
            // Where no thread can be had, the program ends, and with it those that wait for it.
            let failed = |error: io::Error| {
                end_group(group);
                RunError::Wait(error)
            };
            let thread = || std::thread::Builder::new().name("program".to_owned());
            let feed = move || {
                // A program that ends before it has read everything says why in its own words.
                let _ = stdin.map(|mut stdin| stdin.write_all(run.input.as_bytes()));
            };
            thread().spawn_scoped(scope, feed).map_err(failed)?;
            let complaint = thread().spawn_scoped(scope, move || read(stderr)).map_err(failed)?;
            let watch = move || {
                let is_late = has_ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
                if is_late {
                    // With what it started, which would hold its output open.
                    end_group(group);
                }
                is_late
            };
            let timer = thread().spawn_scoped(scope, watch).map_err(failed)?;
            let output = read(stdout);
            let complaint = complaint.join().unwrap_or_else(|_| Ok(Vec::new()));
            self.wait_without_reaping();
            drop(ended);
            Ok((output, complaint, timer.join().unwrap_or_default()))
        });
        let (stdout, stderr, is_late) = attended?;
        let status = self.reap().map_err(RunError::Wait)?;
        if is_late {
            return Err(RunError::TimedOut(limit));
        }
        let (stdout, stderr) = (stdout.map_err(RunError::Wait)?, stderr.map_err(RunError::Wait)?);
        Ok(Output { status, stdout, stderr })
    }

    fn wait_without_reaping(&self) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(Pid::from_child(&self.child)), options) {}
    }

    /// Takes it off every list first: after this its number may be another's.
    fn reap(&mut self) -> io::Result<std::process::ExitStatus> {
        let mut registry = registry();
        registry.groups.remove(&self.group);
        if let Some(cancel) = self.cancel {
            cancel.state().group = None;
        }
        self.child.wait()
    }
}

impl Drop for Running<'_> {
    /// Only if attending it failed half-way: then it is ended.
    fn drop(&mut self) {
        if registry().groups.contains(&self.group) {
            end_group(self.group);
            let _ = self.reap();
        }
    }
}

fn read(pipe: Option<impl io::Read>) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut text)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
