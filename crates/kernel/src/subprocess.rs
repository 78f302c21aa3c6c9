//! Runs other programs: looked up in absolute folders only, with a clean environment, and never left behind.
//!
//! Every program goes through [`run`], except credential plugins of a kubeconfig, which the client library starts. Each leads a
//! process group of its own, so that it can be killed with everything it started: by its [`Cancel`] token, by its timeout, and
//! all at once by [`kill_all`]. If this process is killed, the kernel kills them.
//!
//! Does not interpret what programs print.

mod lookup;

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

pub(crate) use lookup::absolute_variable;
pub use lookup::find;

/// A program to run to its end.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The name, without a folder.
    pub program: &'a str,
    /// Without the name.
    pub arguments: &'a [&'a str],
    /// Its standard input.
    pub input: &'a str,
    /// When it is killed.
    pub timeout: Duration,
    /// Kills it earlier.
    pub cancel: Option<&'a Cancel>,
}

/// Why a program did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No absolute folder of `PATH` contains it.
    #[error("there is no such program in the absolute folders of PATH")]
    NotFound,
    /// Its [`Cancel`] token was used.
    #[error("cancelled")]
    Cancelled,
    /// It was killed after its timeout.
    #[error("it did not end within {} seconds", .0.as_secs_f32())]
    TimedOut(Duration),
    /// It could not be started.
    #[error("starting it")]
    Start(#[source] io::Error),
    /// It was started, and its outcome is not known.
    #[error("waiting for it")]
    Wait(#[source] io::Error),
}

impl RunError {
    /// Whether it certainly did nothing, since it never ran.
    pub fn never_ran(&self) -> bool {
        match self {
            Self::NotFound | Self::Start(_) => true,
            Self::Cancelled | Self::TimedOut(_) | Self::Wait(_) => false,
        }
    }
}

/// Runs a program to its end and returns its output and status. After [`kill_all`] it does not return.
pub fn run(run: &Run<'_>) -> Result<Output, RunError> {
    let path = find(run.program).ok_or(RunError::NotFound)?;
    let mut command = Command::new(path);
    command.args(run.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env_clear().envs(lookup::environment()).current_dir("/").process_group(0);
    crate::sys::kill_with_parent(&mut command);
    let (child, group) = start(&mut command, run.cancel)?;
    let mut running = Running { child, group, cancel: run.cancel };
    let output = running.wait(run);
    if registry().is_closed {
        wait_for_exit();
    }
    let output = output?;
    if run.cancel.is_some_and(Cancel::is_cancelled) {
        return Err(RunError::Cancelled);
    }
    Ok(output)
}

/// This process is about to exit. A caller that saw its program killed could make it exit with a failure.
fn wait_for_exit() -> ! {
    loop {
        std::thread::park();
    }
}

/// Kills every program with everything it started, and starts no more: this process is about to exit, and callers of [`run`]
/// wait until then.
pub fn kill_all() {
    let mut registry = registry();
    registry.is_closed = true;
    for group in &registry.groups {
        kill_group(*group);
    }
}

/// Like [`kill_all`], for a thread that may hold the lock itself: does nothing if the lock is held.
pub fn try_kill_all() {
    let Ok(registry) = REGISTRY.try_lock() else { return };
    for group in &registry.groups {
        kill_group(*group);
    }
}

/// Kills a program from another thread, now or as soon as it starts.
#[derive(Debug, Default)]
pub struct Cancel(Mutex<CancelState>);

#[derive(Debug, Default)]
struct CancelState {
    is_cancelled: bool,
    group: Option<i32>,
}

impl Cancel {
    /// Kills what runs with this token, and whatever is started with it later.
    pub fn cancel(&self) {
        let mut state = self.state();
        state.is_cancelled = true;
        if let Some(group) = state.group {
            kill_group(group);
        }
    }

    /// Whether the token was used.
    pub fn is_cancelled(&self) -> bool {
        self.state().is_cancelled
    }

    fn state(&self) -> MutexGuard<'_, CancelState> {
        // Two plain values are never left half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The process groups that run now. A group is listed only until its leader is reaped: until then its id cannot be reused, and
/// no signal can hit another process.
static REGISTRY: Mutex<Registry> = Mutex::new(Registry { is_closed: false, groups: BTreeSet::new() });

struct Registry {
    is_closed: bool,
    groups: BTreeSet<i32>,
}

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts and registers it in one step, so that [`kill_all`] and [`Cancel`] cannot miss it.
fn start(command: &mut Command, cancel: Option<&Cancel>) -> Result<(Child, i32), RunError> {
    let mut registry = registry();
    if registry.is_closed {
        drop(registry);
        wait_for_exit();
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

fn kill_group(group: i32) {
    if let Some(group) = Pid::from_raw(group) {
        // Fails only if the group is gone already.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// A program that was started and not reaped.
struct Running<'a> {
    child: Child,
    group: i32,
    cancel: Option<&'a Cancel>,
}

impl Running<'_> {
    /// Writes the input while reading the output, so that neither blocks the other. Kills the program after its timeout.
    fn wait(&mut self, run: &Run<'_>) -> Result<Output, RunError> {
        let (stdin, stdout, stderr) =
            (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take());
        let (group, timeout) = (self.group, run.timeout);
        let (ended, has_ended) = mpsc::channel::<()>();
        let outcome = std::thread::scope(|scope| {
            // Without a thread the program is killed, and with it the threads end that wait for it.
            let failed = |error: io::Error| {
                kill_group(group);
                RunError::Wait(error)
            };
            let thread = || std::thread::Builder::new().name("program".to_owned());
            let feed = move || {
                // A program that exits before it has read everything reports why itself.
                let _ = stdin.map(|mut stdin| stdin.write_all(run.input.as_bytes()));
            };
            thread().spawn_scoped(scope, feed).map_err(failed)?;
            let errors = thread().spawn_scoped(scope, move || read(stderr)).map_err(failed)?;
            let watch = move || {
                let is_late = has_ended.recv_timeout(timeout) == Err(RecvTimeoutError::Timeout);
                if is_late {
                    // With its children, which would hold its output open.
                    kill_group(group);
                }
                is_late
            };
            let timer = thread().spawn_scoped(scope, watch).map_err(failed)?;
            let output = read(stdout);
            let errors = errors.join().unwrap_or_else(|_| Ok(Vec::new()));
            self.wait_without_reaping();
            drop(ended);
            Ok((output, errors, timer.join().unwrap_or_default()))
        });
        let (stdout, stderr, is_late) = outcome?;
        let status = self.reap().map_err(RunError::Wait)?;
        if is_late {
            return Err(RunError::TimedOut(timeout));
        }
        let (stdout, stderr) = (stdout.map_err(RunError::Wait)?, stderr.map_err(RunError::Wait)?);
        Ok(Output { status, stdout, stderr })
    }

    fn wait_without_reaping(&self) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(Pid::from_child(&self.child)), options) {}
    }

    /// Unregisters it first: after this its id may be reused.
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
    /// Kills it if waiting for it failed half-way.
    fn drop(&mut self) {
        if registry().groups.contains(&self.group) {
            kill_group(self.group);
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
