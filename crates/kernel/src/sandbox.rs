//! Drops privileges that this process does not need. Irreversible.
//!
//! To be entered before threads are started: privileges belong to a thread, and are inherited by the threads and programs that it
//! starts. The caller says what is needed.

pub mod capabilities;
mod landlock;
mod seccomp;

use std::io;
use std::path::PathBuf;

pub use rustix::thread::CapabilitySet;

pub use capabilities::can_read_all;

/// How much is dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Nothing.
    None,
    /// Capabilities, and the ways to regain them. No cost, breaks nothing.
    #[default]
    Basic,
    /// Also system calls and writable files, as far as the kernel supports it.
    Strict,
}

/// What is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Capabilities, if the process has them.
    pub capabilities: CapabilitySet,
    /// Files and folders that are written to, if they exist; everything may be read.
    pub writable: Vec<PathBuf>,
}

/// The state after [`enter`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entered {
    /// The remaining capabilities.
    pub capabilities: CapabilitySet,
    /// Whether system calls are filtered.
    pub filters_calls: bool,
    /// Whether files are restricted.
    pub restricts_files: bool,
}

/// Something could not be dropped.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The kernel rejected it.
    #[error("dropping {what}")]
    Rejected {
        /// What was to be dropped.
        what: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The seccomp filter cannot be compiled or installed.
    #[error("filtering system calls: {0}")]
    Filter(String),
    /// The Landlock rules cannot be created or applied.
    #[error("restricting files: {0}")]
    Files(String),
}

/// Drops every privilege of this thread alone, as far as possible. For threads that need none.
pub fn drop_all_privileges() {
    // If it fails the thread keeps what it had.
    let _ = capabilities::keep_only(CapabilitySet::empty());
    let _ = rustix::thread::set_no_new_privs(true);
}

/// Drops everything but what is needed.
pub fn enter(level: Level, needs: &Needs) -> Result<Entered, SandboxError> {
    let mut entered =
        Entered { capabilities: capabilities::present(), filters_calls: false, restricts_files: false };
    if level == Level::None {
        return Ok(entered);
    }
    entered.capabilities = capabilities::keep_only(needs.capabilities)?;
    let rejected = |source: rustix::io::Errno| SandboxError::Rejected {
        what: "privileges of programs that are run (no_new_privs)",
        source: source.into(),
    };
    rustix::thread::set_no_new_privs(true).map_err(rejected)?;
    if level == Level::Strict {
        entered.restricts_files = landlock::restrict(&needs.writable)?;
        seccomp::install()?;
        entered.filters_calls = true;
    }
    Ok(entered)
}
