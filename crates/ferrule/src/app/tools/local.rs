//! Answers without a running proxy: from a folder of manifests, and the proxy's own flags.

use std::path::Path;

use ferrule_backends::backend;
use ferrule_config::cli::{self, flags};
use ferrule_config::settings::{FlagOnly, Settings};
use ferrule_config::{complete, file};
use ferrule_kernel::sandbox::capabilities;
use ferrule_model::with_causes;

use super::ToolError;
use super::options::Given;
use crate::run::Snapshot;
use crate::run::offline::{self, KernelUse};

/// What a proxy with these flags would make of a folder.
pub(super) fn snapshot(given: &Given, folder: &str, kernel: KernelUse) -> Result<Snapshot, ToolError> {
    let failed = |error: &dyn std::error::Error| ToolError(with_causes(error));
    let mut arguments = given.proxy_flags.clone();
    arguments.push(format!("--{}={folder}", flags::MANIFESTS));
    let line = cli::parse(&arguments).map_err(|error| failed(&error))?;
    let completed = complete(&line, |path| file::read_at_start(path)).map_err(|error| failed(&error))?;
    let settings =
        Settings::resolve(&completed, &FlagOnly::from_command_line(&line)).map_err(|error| failed(&error))?;
    if kernel == KernelUse::ThisHost {
        capabilities::raise_permitted();
    }
    let mut backend = backend(settings.mode);
    backend.set_iptables_access(settings.iptables_access);
    Ok(offline::snapshot(&settings, backend, Path::new(folder), kernel)?)
}
