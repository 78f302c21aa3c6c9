//! iptables mode: what of this host it depends on, and whether somebody emptied the tables.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::SyncSender as Sender;
use std::time::{Duration, Instant};

use ferrule_backends::Dataplane;
use ferrule_backends::iptables::{Host, INVALID_COUNTER, LOOPBACK_COUNTER, Pulse, Reconciler, pulse};
use ferrule_kernel::iptables::{IptablesError, Programs};
use ferrule_kernel::nft::Family;
use ferrule_kernel::sysctl::{self, SysctlError};
use ferrule_kernel::{accounting, interfaces};
use ferrule_model::{IpFamily, NodeIps, PerFamily};
use tracing::{error, info, warn};

use super::Event;
use super::drift::Drift;
use super::rhythm::Rhythm;
use super::start::StartError;
use crate::causes::with_causes;
use crate::resolve::node_ports;
use crate::settings::Settings;

/// Who empties one table may empty the others; for so long that is waited for.
const FLUSH_PATIENCE: Duration = Duration::from_secs(5);
const FLUSH_STEP: Duration = Duration::from_millis(100);

/// The programs of the families that are served.
pub type Served = PerFamily<Programs>;

/// The programs of each family that work here, and why the others do not.
pub fn usable() -> PerFamily<Result<Programs, IptablesError>> {
    let mut found = PerFamily::default();
    for (family, table) in [(IpFamily::V4, Family::Ip), (IpFamily::V6, Family::Ip6)] {
        let chosen = Programs::choose(table);
        found.set(family, chosen.and_then(|mut programs| programs.probe().map(|()| programs)));
    }
    found
}

/// Keeps the rules of each family.
pub fn dataplanes(served: Served, host: Host) -> PerFamily<Box<dyn Dataplane>> {
    let mut dataplanes: PerFamily<Box<dyn Dataplane>> = PerFamily::default();
    for (family, programs) in served.iter() {
        info!(v = 2, %family, program = programs.name("-restore"), "Using iptables");
        dataplanes.set(family, Box::new(Reconciler::new(*programs, host).counting(has_counter)));
    }
    dataplanes
}

/// What of this host the rules depend on.
pub fn host() -> Host {
    let liberal = sysctl::read("net/netfilter/nf_conntrack_tcp_be_liberal");
    Host {
        tcp_is_liberal: liberal.is_ok_and(|value| value != "0"),
        counts_invalid: has_counter(INVALID_COUNTER),
        counts_loopback: has_counter(LOOPBACK_COUNTER),
    }
}

fn has_counter(name: &str) -> bool {
    accounting::ensure(name).is_ok()
}

/// Sets what this mode needs of the host, without anything of the cluster, for a run that may set nothing.
pub fn prepare(settings: &Settings) -> Result<(), StartError> {
    // Which of them is the node's does not matter: loopback is what is asked for, and none of these is.
    let addresses = interfaces::addresses()?.into_iter().map(|found| found.address);
    let host_ips: Vec<IpAddr> = addresses.filter(|ip| !ip.is_loopback()).collect();
    Ok(route_loopback(settings, &host_ips)?)
}

/// Lets the kernel route what is sent to NodePorts on loopback addresses, if they are to be served there.
pub fn route_loopback(settings: &Settings, host_ips: &[IpAddr]) -> Result<(), SysctlError> {
    let ips = NodeIps::settle(host_ips, Some(settings.bind_address));
    let ports = node_ports(&settings.node_port_addresses, &ips);
    let loopback = ports.blocks.iter().find(|block| block.network().is_loopback());
    if let Some(block) = loopback.filter(|block| !settings.localhost_node_ports || block.network().is_ipv6())
    {
        error!(%block, "NodePorts are not served on localhost, though --nodeport-addresses lists it");
    }
    if settings.localhost_node_ports && ports.v4.contains_ipv4_loopback() {
        info!("Setting route_localnet=1 to allow node-ports on localhost");
        sysctl::ensure("net/ipv4/conf/all/route_localnet", "1")?;
    }
    Ok(())
}

/// Looks from time to time whether the rules are still there; ends with the loop.
pub fn watch(served: Served, rhythm: Arc<Rhythm>, events: Sender<Event>) -> io::Result<()> {
    let work = move || {
        let mut looked = Instant::now();
        loop {
            rhythm.rest();
            for (family, programs) in served.iter() {
                let Some(drift) = lost(family, *programs) else { continue };
                // The repair looks at every rule too.
                looked = Instant::now();
                if events.send(Event::Drift(drift)).is_err() {
                    return;
                }
            }
            if looked.elapsed() >= rhythm.between_looks() {
                looked = Instant::now();
                if events.send(Event::RulesUncertain).is_err() {
                    return;
                }
            }
        }
    };
    crate::threads::spawn("canary", work).map(drop)
}

/// What was lost, once nobody seems to be at it any more.
fn lost(family: IpFamily, mut programs: Programs) -> Option<Drift> {
    let since = Instant::now();
    let tables = loop {
        match pulse(&mut programs) {
            Ok(Pulse::Steady) => return None,
            Ok(Pulse::Gone) => break "all tables".to_owned(),
            Ok(Pulse::Failing(tables)) if since.elapsed() >= FLUSH_PATIENCE => {
                break format!("tables {}", tables.join(", "));
            }
            Ok(Pulse::Failing(_)) => std::thread::park_timeout(FLUSH_STEP),
            Err(error) => {
                warn!(%family, err = with_causes(&error), "Cannot see whether the rules are still there");
                return None;
            }
        }
    };
    Some(Drift { family, what: format!("{tables} emptied"), by: None })
}
