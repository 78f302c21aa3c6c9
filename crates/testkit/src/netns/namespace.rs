//! One anonymous network namespace: it exists as long as a descriptor refers to it, and leaves nothing behind.
//!
//! Addresses and links are set up in [`super::wiring`].

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Command, Output, Stdio};
use std::thread;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use super::NetError;

/// A network namespace. The kernel removes it, with its links, rules and addresses, once this and all sockets in it
/// are closed, however the test ends.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    file: OwnedFd,
}

impl Namespace {
    /// An empty namespace. The name is for messages.
    pub fn new(name: &str) -> Result<Self, NetError> {
        let made = thread::scope(|scope| scope.spawn(unshared).join());
        let file = made.map_err(|_| io::Error::other("the thread that makes it panicked")).flatten();
        let file = file.map_err(|source| NetError::Namespace { name: name.into(), source })?;
        Ok(Self { name: name.into(), file })
    }

    /// The namespace this process is in: that of a virtual machine made for tests.
    pub fn of_this_process() -> Result<Self, NetError> {
        let name = "this machine".to_owned();
        match fs::File::open("/proc/self/ns/net") {
            Ok(file) => Ok(Self { name, file: file.into() }),
            Err(source) => Err(NetError::Namespace { name, source }),
        }
    }

    /// The name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs code in it, on a thread of its own, and waits for the result. Sockets and processes created by the code belong to
    /// the namespace.
    pub fn run<T: Send>(&self, code: impl FnOnce() -> T + Send) -> Result<T, NetError> {
        let entered = || -> io::Result<T> {
            move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(code())
        };
        let result = thread::scope(|scope| scope.spawn(entered).join());
        match result {
            Ok(result) => result.map_err(|source| NetError::Enter { name: self.name.clone(), source }),
            // A failed assertion of the test.
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Runs a program in it with some text as input; fails unless the program succeeds.
    pub fn feed(&self, program: &str, arguments: &[&str], input: &str) -> Result<Output, NetError> {
        let output = self.run(|| fed(program, arguments, input))?;
        let failed = |problem: String| NetError::Program {
            program: format!("{program} {}", arguments.join(" ")),
            name: self.name.clone(),
            problem,
        };
        let output = output.map_err(|error| failed(error.to_string()))?;
        if output.status.success() {
            return Ok(output);
        }
        Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_string()))
    }

    /// Writes a setting under `/proc/sys`; ignores one that this kernel does not have.
    pub fn set(&self, setting: &str, value: &str) -> Result<(), NetError> {
        self.set_all(&[(setting, value)])
    }

    /// Like [`Self::set`], for several settings.
    pub fn set_all(&self, settings: &[(&str, &str)]) -> Result<(), NetError> {
        self.run(|| settings.iter().try_for_each(|(setting, value)| self.write(setting, value)))?
    }

    fn write(&self, setting: &str, value: &str) -> Result<(), NetError> {
        let path = format!("/proc/sys/{setting}");
        match fs::write(&path, value) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(NetError::Setting { setting: setting.into(), name: self.name.clone(), source })
            }
            _ => Ok(()),
        }
    }

    /// A path by which other processes of this user can open it while this process lives.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }
}

// `unshare` is unsafe for flags that separate a thread from the files or memory of its process. NEWNET is not one of them.
#[expect(deprecated, reason = "the safe form is deprecated for the sake of flags not used here")]
fn unshared() -> io::Result<OwnedFd> {
    rustix::thread::unshare(UnshareFlags::NEWNET)?;
    Ok(fs::File::open("/proc/thread-self/ns/net")?.into())
}

fn fed(program: &str, arguments: &[&str], input: &str) -> io::Result<Output> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take();
    thread::scope(|scope| {
        // A program that stops reading reports why on stderr.
        scope.spawn(move || stdin.as_mut().map(|stdin| io::Write::write_all(stdin, input.as_bytes())));
        child.wait_with_output()
    })
}
