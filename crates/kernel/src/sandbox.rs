//! Gives up rights that this process does not need, for good.
//!
//! To be entered before threads are started: each thread has rights of its own, and inherits them from its maker, as programs
//! do that are run. What is needed is for the caller to say; nothing here can be undone.

pub mod capabilities;
mod landlock;
mod seccomp;

use std::io;
use std::path::PathBuf;

pub use rustix::thread::CapabilitySet;

pub use capabilities::can_read_all;

/// How much is given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Nothing.
    None,
    /// Capabilities, and the ways to get them back: costs nothing, breaks nothing.
    #[default]
    Basic,
    /// System calls and files too, as far as the kernel can.
    Strict,
}

/// What must stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Capabilities, of those there are.
    pub capabilities: CapabilitySet,
    /// Files and folders that are written to, of those there are; everything may be read.
    pub writable: Vec<PathBuf>,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entered {
    /// The capabilities that are left.
    pub capabilities: CapabilitySet,
    /// Whether system calls are filtered.
    pub filters_calls: bool,
    /// Whether files are restricted.
    pub restricts_files: bool,
}

/// Something could not be given up.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The kernel refuses.
    #[error("giving up {what}")]
    Refused {
        /// What.
        what: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The filter of system calls cannot be made or installed.
    #[error("filtering system calls: {0}")]
    Filter(String),
    /// The rules about files cannot be made or installed.
    #[error("restricting files: {0}")]
    Files(String),
}

/// Gives up every right of this thread alone, as far as that can be done. For threads that need none.
pub fn give_up_all_rights() {
    // A thread that keeps some is no worse off than before.
    let _ = capabilities::keep_only(CapabilitySet::empty());
    let _ = rustix::thread::set_no_new_privs(true);
}

/// Gives up everything but what is needed.
pub fn enter(level: Level, needs: &Needs) -> Result<Entered, SandboxError> {
    let mut entered =
        Entered { capabilities: capabilities::present(), filters_calls: false, restricts_files: false };
    if level == Level::None {
        return Ok(entered);
    }
    entered.capabilities = capabilities::keep_only(needs.capabilities)?;
    let refused = |source: rustix::io::Errno| SandboxError::Refused {
        what: "privileges of programs that are run (no_new_privs)",
        source: source.into(),
    };
    rustix::thread::set_no_new_privs(true).map_err(refused)?;
    if level == Level::Strict {
        entered.restricts_files = landlock::restrict(&needs.writable)?;
        seccomp::install()?;
        entered.filters_calls = true;
    }
    Ok(entered)
}
