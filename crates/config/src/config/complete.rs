//! Flags and file joined into one effective configuration, in kube-proxy's order.
//!
//! With a file, flags that set a field are ignored, apart from those for logging and the host name; without one, they
//! are the configuration. Reads through a function it is given, so that it can be tried without files.

use std::io;
use std::path::Path;

use ferrule_model::parse_ip;
use ferrule_plan::ProxyMode;

use super::decode::{DecodeError, Decoded, decode};
use super::defaults::{fill_defaults, fill_platform_defaults, with_port};
use super::effective::{Effective, split_cidrs};
use super::fields;
use super::mode::{ModeBlock, WrittenMode};
use super::slot::Value;
use super::v1alpha1::KubeProxyConfiguration;
use crate::cli::flags::{self, WithConfigFile};
use crate::cli::values::split_host_port;
use crate::cli::{CommandLine, Flag};
use crate::gates::{GateError, Gates};
use crate::resolve::{NodeNameError, node_name};
use crate::settings::Origin;

/// An effective configuration and what should be said about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Completed {
    /// The configuration.
    pub effective: Effective,
    /// Its feature gates.
    pub(crate) gates: Gates,
    /// Where it came from.
    pub(crate) origin: Origin,
    /// Whether no mode was asked for, so that the default one runs.
    pub mode_was_unset: bool,
    /// What a strict reader would have refused in the file.
    pub strict_warnings: Vec<String>,
    /// Gates that will go away.
    pub gate_warnings: Vec<String>,
}

/// Why there is no effective configuration.
#[derive(Debug, thiserror::Error)]
pub enum CompleteError {
    /// The file cannot be read.
    #[error("reading {path:?}")]
    Read {
        /// The path given.
        path: String,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The file is no configuration.
    #[error("failed to decode")]
    Decode(#[from] DecodeError),
    /// `--hostname-override` holds nothing.
    #[error("--{}", flags::HOSTNAME_OVERRIDE)]
    HostnameOverride(#[source] NodeNameError),
    /// Gates that do not exist or cannot be set so.
    #[error("featureGates: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Gates(Vec<GateError>),
}

/// Joins flags and file. `read` gives the bytes of the file `--config` names.
pub fn complete(
    line: &CommandLine,
    read: impl FnOnce(&Path) -> io::Result<Vec<u8>>,
) -> Result<Completed, CompleteError> {
    let path = line.text(flags::CONFIG);
    if path.is_empty() {
        return finish(line, from_flags(line), Vec::new());
    }
    let bytes = read(Path::new(&path)).map_err(|source| CompleteError::Read { path, source })?;
    complete_with_file(line, &bytes)
}

/// Joins flags with a file's bytes; used at start and again for every change of the file.
pub fn complete_with_file(line: &CommandLine, bytes: &[u8]) -> Result<Completed, CompleteError> {
    let Decoded { mut configuration, mut warnings } = decode(bytes)?;
    drop_ungated_split_streams(&mut configuration, &mut warnings);
    let min_sync_period_is_set = Effective::names_min_sync_period(&configuration);
    fill_defaults(&mut configuration);
    overlay(line, &mut configuration, |flag| flag.with_config_file == WithConfigFile::Merged);
    let effective = Effective { min_sync_period_is_set, ..Effective::from_written(configuration) };
    finish(line, effective, warnings)
}

/// kube-proxy forgets `splitStream` of a file whatever the gates say, so that files with it start; with the gate it
/// counts here, and without it is ignored.
fn drop_ungated_split_streams(configuration: &mut KubeProxyConfiguration, warnings: &mut Vec<String>) {
    // Gates that cannot be set so are refused a little later, with their own words.
    let allowed = Gates::configured(&configuration.feature_gates)
        .is_ok_and(|(gates, _)| gates.is_on("LoggingAlphaOptions"));
    let logging = &mut configuration.logging;
    for (format, options) in [("text", &mut logging.text), ("json", &mut logging.json)] {
        if options.split_stream && !allowed {
            options.split_stream = false;
            warnings.push(format!(
                "logging.options.{format}.splitStream needs the feature gate LoggingAlphaOptions, it is ignored"
            ));
        }
    }
}

fn finish(
    line: &CommandLine,
    mut effective: Effective,
    strict_warnings: Vec<String>,
) -> Result<Completed, CompleteError> {
    let origin = if line.text(flags::CONFIG).is_empty() { Origin::Flags } else { Origin::File };
    let mode_was_unset = effective.configuration.mode == WrittenMode::Unset;
    if mode_was_unset && !line.text(flags::MANIFESTS).is_empty() {
        // A node without an API server replaces no kube-proxy, so the mode that serves best is the default.
        effective.configuration.mode = WrittenMode::Known(ProxyMode::Nftables);
    }
    fill_platform_defaults(&mut effective.configuration);
    let hostname = line.text(flags::HOSTNAME_OVERRIDE);
    if !hostname.is_empty() {
        let name = node_name(&hostname).map_err(CompleteError::HostnameOverride)?;
        effective.configuration.hostname_override = name.to_string();
    }
    let (gates, gate_warnings) =
        Gates::configured(&effective.configuration.feature_gates).map_err(CompleteError::Gates)?;
    Ok(Completed { effective, gates, origin, mode_was_unset, strict_warnings, gate_warnings })
}

fn from_flags(line: &CommandLine) -> Effective {
    let mut configuration = KubeProxyConfiguration::default();
    fill_defaults(&mut configuration);
    overlay(line, &mut configuration, |_| true);
    if line.text(flags::WRITE_CONFIG_TO).is_empty() {
        apply_port(&mut configuration.healthz_bind_address, line.integer(flags::HEALTHZ_PORT));
        apply_port(&mut configuration.metrics_bind_address, line.integer(flags::METRICS_PORT));
    }
    let (period, min_period) = match configuration.mode.in_effect() {
        ProxyMode::Ipvs => (flags::IPVS_SYNC_PERIOD, flags::IPVS_MIN_SYNC_PERIOD),
        ProxyMode::Iptables | ProxyMode::Nftables | ProxyMode::Userspace => {
            (flags::IPTABLES_SYNC_PERIOD, flags::IPTABLES_MIN_SYNC_PERIOD)
        }
    };
    // An empty value is one empty block, which validation refuses: that is what kube-proxy makes of it.
    let cluster_cidrs = if line.is_given(flags::CLUSTER_CIDR) {
        split_cidrs(&line.text(flags::CLUSTER_CIDR))
    } else {
        Vec::new()
    };
    Effective {
        block: ModeBlock {
            sync_period: line.duration(period),
            min_sync_period: line.duration(min_period),
            masquerade_all: line.is_on(flags::MASQUERADE_ALL),
        },
        min_sync_period_is_set: line.is_given(min_period),
        cluster_cidrs,
        configuration,
    }
}

/// Puts the given flags' values into the fields they name.
fn overlay(line: &CommandLine, configuration: &mut KubeProxyConfiguration, wanted: impl Fn(&Flag) -> bool) {
    for (flag, value) in line.given().filter(|(flag, _)| wanted(flag)) {
        let Some(field) = fields::find(flag.field) else { continue };
        let mut slot = (field.slot)(configuration);
        let value = match (slot.get(), value) {
            // The flag's patterns come first, since the first match decides.
            (Value::VModule(of_file), Value::VModule(of_flag)) => {
                Value::VModule(of_flag.iter().cloned().chain(of_file).collect())
            }
            (_, value) => value.clone(),
        };
        // Types agree by a test over the whole table.
        let _ = slot.put(value);
    }
}

/// What the deprecated port flags do: 0 switches off, a bare IP gets the port, anything else stays.
fn apply_port(address: &mut String, port: i32) {
    if port == 0 {
        address.clear();
    } else if split_host_port(address).is_none() && parse_ip(address).is_some() {
        *address = with_port(address, port);
    }
}

#[cfg(test)]
mod tests;
