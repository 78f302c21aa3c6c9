//! Answers without a running proxy: from a folder of manifests or an API server, and the proxy's own flags.

use ferrule_config::cli::{self, flags};
use ferrule_config::settings::{FlagOnly, Settings};
use ferrule_config::{complete, file};
use ferrule_kernel::sandbox::capabilities;
use ferrule_model::with_causes;

use super::ToolError;
use super::options::Given;
use crate::app::chosen_backend;
use crate::run::offline::{self, KernelUse};
use crate::run::{Snapshot, Source};

/// Where the objects come from if no proxy is asked.
pub(super) fn source(given: &Given) -> Option<Source> {
    let folder = given.value("manifests").map(|folder| Source::Manifests(folder.into()));
    let names_a_cluster = given.names_a_cluster();
    folder.or_else(|| names_a_cluster.then(|| Source::Server { program: "ferrule".to_owned() }))
}

/// What a proxy with these flags would make of what the source says.
pub(super) fn snapshot(given: &Given, source: &Source, kernel: KernelUse) -> Result<Snapshot, ToolError> {
    let failed = |error: &dyn std::error::Error| ToolError(with_causes(error));
    let mut arguments = given.proxy_flags.clone();
    if let Source::Manifests(folder) = source {
        arguments.push(format!("--{}={}", flags::MANIFESTS, folder.display()));
    }
    let line = cli::parse(&arguments).map_err(|error| failed(&error))?;
    let completed = complete(&line, |path| file::read_at_start(path)).map_err(|error| failed(&error))?;
    let settings =
        Settings::resolve(&completed, &FlagOnly::from_command_line(&line)).map_err(|error| failed(&error))?;
    if kernel == KernelUse::ThisHost {
        capabilities::raise_permitted();
    }
    Ok(offline::snapshot(&settings, chosen_backend(&settings), source, kernel)?)
}
