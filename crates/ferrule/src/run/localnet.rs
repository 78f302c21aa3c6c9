//! `route_localnet`, which NodePorts on loopback addresses need: on while they are served there, and back to what it was after.

use std::net::IpAddr;

use ferrule_backends::iptables::{LocalnetBefore, LocalnetError, localnet};
use ferrule_kernel::iptables::Programs;
use ferrule_kernel::sysctl;
use ferrule_model::NodeIps;
use tracing::{error, info, warn};

use crate::causes::with_causes;
use crate::resolve::node_ports;
use crate::settings::Settings;

/// The setting, as this run has it.
#[derive(Debug)]
pub struct Localnet {
    /// What it was before any service proxy needed it.
    pub before: LocalnetBefore,
    is_on: bool,
    is_wanted: bool,
}

impl Localnet {
    /// Makes it what these settings need, before the first rules are written.
    pub fn begin(
        mut programs: Programs,
        settings: &Settings,
        host_ips: &[IpAddr],
    ) -> Result<Self, LocalnetError> {
        let before = localnet::before(programs)?;
        let is_wanted = serves_loopback(settings, host_ips);
        if is_wanted {
            info!("Setting route_localnet=1 to allow node-ports on localhost");
            localnet::switch_on(&mut programs, before)?;
        } else if let Err(error) = switch_off(before) {
            // It is no worse than it was.
            tell(&error);
        }
        Ok(Self { before, is_on: is_wanted, is_wanted })
    }

    /// Notes other settings.
    pub fn follow(&mut self, settings: &Settings, host_ips: &[IpAddr]) {
        self.is_wanted = serves_loopback(settings, host_ips);
    }

    /// Makes it what the last settings need. The rules that they ask for are written: nobody on the network gets in when it is
    /// switched on, and nobody is served any more when it is switched off.
    pub fn settle(&mut self) {
        if self.is_on == self.is_wanted {
            return;
        }
        self.is_on = self.is_wanted;
        let result = if self.is_wanted { localnet::set_on() } else { switch_off(self.before) };
        if let Err(error) = result {
            tell(&error);
        }
    }
}

fn switch_off(before: LocalnetBefore) -> Result<(), sysctl::SysctlError> {
    if localnet::restore(before)? {
        info!("Setting route_localnet=0 again, no node-ports are served on localhost");
    }
    Ok(())
}

fn tell(error: &sysctl::SysctlError) {
    warn!(err = with_causes(error), "route_localnet is not what the settings ask for");
}

/// Whether NodePorts are to be served on loopback addresses; complains if they are asked for and cannot be.
fn serves_loopback(settings: &Settings, host_ips: &[IpAddr]) -> bool {
    let ips = NodeIps::settle(host_ips, Some(settings.bind_address));
    let ports = node_ports(&settings.node_port_addresses, &ips);
    let loopback = ports.blocks.iter().find(|block| block.network().is_loopback());
    if let Some(block) = loopback.filter(|block| !settings.localhost_node_ports || block.network().is_ipv6())
    {
        error!(%block, "NodePorts are not served on localhost, though --nodeport-addresses lists it");
    }
    settings.localhost_node_ports && ports.v4.contains_ipv4_loopback()
}
