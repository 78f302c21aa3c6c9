//! `route_localnet` in a run: on while NodePorts are served on loopback addresses, and back to what it was afterwards.

use ferrule_kernel::iptables::TableAccess;
use ferrule_kernel::sysctl::SysctlError;
use ferrule_model::{IpFamily, NodePortAddresses};

use super::localnet::{self, LocalnetBefore, LocalnetError};
use crate::{ModeOptions, Note, Severity};
use ferrule_model::with_causes;

/// The setting, as this run has it.
#[derive(Debug)]
pub(super) struct LocalnetSwitch {
    /// What it was before any service proxy needed it.
    pub before: LocalnetBefore,
    is_on: bool,
    is_wanted: bool,
}

impl LocalnetSwitch {
    /// Makes it what these options need, before the first rules are written.
    pub(super) fn start(
        access: TableAccess,
        options: &ModeOptions,
    ) -> Result<(Self, Vec<Note>), LocalnetError> {
        let before = localnet::before(access)?;
        let is_wanted = serves_loopback(options);
        let mut notes: Vec<Note> = complaint(options).into_iter().collect();
        if is_wanted {
            let message = "Setting route_localnet=1 to allow node-ports on localhost";
            notes.push(Note::new(Severity::Info, message));
            localnet::switch_on(access, before)?;
        } else {
            notes.extend(switch_off(before));
        }
        Ok((Self { before, is_on: is_wanted, is_wanted }, notes))
    }

    /// Takes over other options, for [`Self::apply`].
    pub(super) fn reconfigure(&mut self, options: &ModeOptions) -> Vec<Note> {
        self.is_wanted = serves_loopback(options);
        complaint(options).into_iter().collect()
    }

    /// Makes it what the last options need, once their rules are written: no host on the network gets in when it is switched on, and
    /// no client is served any more when it is switched off.
    pub(super) fn apply(&mut self) -> Option<Note> {
        if self.is_on == self.is_wanted {
            return None;
        }
        self.is_on = self.is_wanted;
        if self.is_wanted { localnet::set_on().err().as_ref().map(failed) } else { switch_off(self.before) }
    }
}

/// It may stay on after a failure: that is no worse than it was.
fn switch_off(before: LocalnetBefore) -> Option<Note> {
    match localnet::restore(before) {
        Ok(false) => None,
        Ok(true) => {
            let message = "Setting route_localnet=0 again, no node-ports are served on localhost";
            Some(Note::new(Severity::Info, message))
        }
        Err(error) => Some(failed(&error)),
    }
}

fn failed(error: &SysctlError) -> Note {
    let message = "route_localnet is not what the settings ask for";
    Note::new(Severity::Warning, message).with_detail(with_causes(error))
}

/// Whether NodePorts are to be served on loopback addresses.
fn serves_loopback(options: &ModeOptions) -> bool {
    let addresses = NodePortAddresses::new(IpFamily::V4, &options.node_port_blocks);
    options.localhost_node_ports && addresses.contains_ipv4_loopback()
}

/// NodePorts that are asked for on loopback addresses, and cannot be served there.
fn complaint(options: &ModeOptions) -> Option<Note> {
    let loopback = options.node_port_blocks.iter().find(|block| block.network().is_loopback())?;
    let is_served = options.localhost_node_ports && !loopback.network().is_ipv6();
    let message = "NodePorts are not served on localhost, though --nodeport-addresses lists it";
    (!is_served).then(|| Note::new(Severity::Error, message).with_detail(loopback.to_string()))
}
