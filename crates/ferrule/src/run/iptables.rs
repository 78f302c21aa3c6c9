//! iptables mode: what of this host it depends on, and who keeps and checks its rules.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::SyncSender as Sender;

use ferrule_backends::Dataplane;
use ferrule_backends::iptables::{Host, INVALID_COUNTER, LOOPBACK_COUNTER, Reconciler, Verifier};
use ferrule_kernel::iptables::{IptablesError, Programs};
use ferrule_kernel::nft::Family;
use ferrule_kernel::sysctl;
use ferrule_kernel::{accounting, interfaces};
use ferrule_model::{IpFamily, PerFamily};
use tracing::info;

use super::Event;
use super::check_schedule::CheckSchedule;
use super::localnet::Localnet;
use super::rule_check::RuleCheck;
use super::start::StartError;
use crate::settings::Settings;
use crate::status::Status;

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

/// Who is told what the checks of the rules find, and when they are made.
pub struct Checks<'a> {
    /// The loop.
    pub events: &'a Sender<Event>,
    /// When.
    pub schedule: &'a Arc<CheckSchedule>,
    /// Where it is noted.
    pub status: &'a Arc<Status>,
}

/// Keeps the rules of each family, and begins to check them.
pub fn dataplanes(
    served: Served,
    host: Host,
    checks: &Checks<'_>,
) -> io::Result<PerFamily<Box<dyn Dataplane>>> {
    let mut dataplanes: PerFamily<Box<dyn Dataplane>> = PerFamily::default();
    for (family, programs) in served.iter() {
        info!(v = 2, %family, program = programs.name("-restore"), "Using iptables");
        let reconciler = Reconciler::new(*programs, host).counting(has_counter);
        let check = RuleCheck {
            family,
            verifier: Verifier::new(*programs, reconciler.known()),
            schedule: Arc::clone(checks.schedule),
            events: checks.events.clone(),
            status: Arc::clone(checks.status),
        };
        check.start()?;
        dataplanes.set(family, Box::new(reconciler));
    }
    Ok(dataplanes)
}

/// What of this host the rules depend on.
pub fn host(localnet: Option<&Localnet>) -> Host {
    let liberal = sysctl::read("net/netfilter/nf_conntrack_tcp_be_liberal");
    Host {
        tcp_is_liberal: liberal.is_ok_and(|value| value != "0"),
        counts_invalid: has_counter(INVALID_COUNTER),
        counts_loopback: has_counter(LOOPBACK_COUNTER),
        localnet_before: localnet.map(|localnet| localnet.before).unwrap_or_default(),
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
    let programs = Programs::choose(Family::Ip).map_err(StartError::Iptables)?;
    Localnet::begin(programs, settings, &host_ips).map(drop).map_err(StartError::Loopback)
}
