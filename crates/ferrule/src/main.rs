//! The program: hands its name and arguments to [`ferrule::app`] and exits with the answer.
//!
//! Installed under two names, `ferrule` and `kube-proxy`; the name decides which commands of its own it has.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use ferrule_kernel::sys::ProfiledAllocator;

/// The system's own, until a heap profile is wanted.
#[global_allocator]
static ALLOCATOR: ProfiledAllocator = ProfiledAllocator;

fn main() -> ExitCode {
    ferrule::panics::install_hook();
    let mut arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    let program = arguments.next().unwrap_or_default();
    ferrule::app::run(&program, &arguments.collect::<Vec<_>>())
}
