//! What ipvs mode needs of the host before the first virtual server: a scheduler, settings, timeouts.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use ferrule_kernel::ipvs::{Ipvs as IpvsClient, IpvsChange, Timeouts, VirtualServer, VirtualServerId};
use ferrule_kernel::netlink::{NetlinkError, Rejection};
use ferrule_kernel::port::VirtualServers;
use ferrule_kernel::sysctl;
use ferrule_model::with_causes;

use super::kernel::{NO_IPVS, scheduler};
use crate::{BackendError, IpvsOptions, Note, Severity};

/// A virtual server at an address for documentation, by which a scheduler is tried, as kube-proxy does.
const TRIAL: VirtualServerId =
    VirtualServerId { address: IpAddr::V4(Ipv4Addr::new(198, 51, 100, 0)), protocol: 6, port: 20000 };

/// So many more ports are tried where something is left at the first.
const OTHER_TRIALS: u16 = 7;

/// Tries the scheduler and sets what the mode depends on.
pub(super) fn prepare(options: &IpvsOptions) -> Result<Vec<Note>, BackendError> {
    let Some(mut ipvs) = IpvsClient::open().map_err(failed)? else { return Err(BackendError::new(NO_IPVS)) };
    try_scheduler(&mut ipvs, &options.scheduler)?;
    let mut notes = set_sysctls(options)?;
    if options.timeouts != Timeouts::default()
        && let Err(error) = ipvs.set_timeouts(&options.timeouts)
    {
        let note = Note::new(Severity::Error, "Cannot set the IPVS timeouts, the kernel's stay");
        notes.push(note.with_detail(with_causes(&error)));
    }
    Ok(notes)
}

fn failed(error: NetlinkError) -> BackendError {
    BackendError::new("preparing ipvs mode").caused_by(error)
}

/// Fails if the kernel does not have the scheduler. The kernel loads its module.
pub(super) fn try_scheduler(ipvs: &mut impl VirtualServers, name: &str) -> Result<(), BackendError> {
    let scheduler = scheduler(name);
    let is_used = |name: &str| name == &*scheduler;
    if ipvs.list().map_err(failed)?.servers.iter().any(|seen| is_used(&seen.server.scheduler)) {
        return Ok(());
    }
    let mut tried = Ok(());
    // One that is there already is not ours to remove: a process that was killed may have left it.
    for port in TRIAL.port..=u16::MAX {
        tried = try_at(ipvs, VirtualServerId { port, ..TRIAL }, &scheduler)?;
        if !tried.as_ref().is_err_and(Rejection::is_there) || port - TRIAL.port >= OTHER_TRIALS {
            break;
        }
    }
    match tried {
        Ok(()) => Ok(()),
        Err(rejection) if rejection.is_not_found() => Err(BackendError::new(format!(
            "this kernel does not have the IPVS scheduler {scheduler}: load the module \
             (modprobe ip_vs_{scheduler}) or choose another one (--ipvs-scheduler)"
        ))),
        Err(rejection) => {
            let doing = format!(
                "trying the IPVS scheduler {scheduler} with a virtual server at {TRIAL}; is one left there \
                 (ipvsadm -D -t {}:{})?",
                TRIAL.address, TRIAL.port
            );
            Err(BackendError::new(doing).caused_by(rejection))
        }
    }
}

/// Adds a virtual server and removes it.
fn try_at(
    ipvs: &mut impl VirtualServers,
    id: VirtualServerId,
    scheduler: &Arc<str>,
) -> Result<Result<(), Rejection>, BackendError> {
    let trial = VirtualServer { id, scheduler: Arc::clone(scheduler), flags: 0, timeout: 0 };
    let mut apply = |change| {
        let outcomes = ipvs.apply(&[change]).map_err(failed)?;
        Ok::<Result<(), Rejection>, BackendError>(outcomes.into_iter().collect())
    };
    match apply(IpvsChange::AddService(trial))? {
        Ok(()) => apply(IpvsChange::DeleteService(id)),
        Err(rejection) => Ok(Err(rejection)),
    }
}

fn set_sysctls(options: &IpvsOptions) -> Result<Vec<Note>, BackendError> {
    let mut notes = Vec::new();
    ensure("net/ipv4/vs/conntrack", "1")?;
    match reuse_mode(&sysctl::read("kernel/osrelease").unwrap_or_default()) {
        ReuseMode::Off => ensure("net/ipv4/vs/conn_reuse_mode", "0")?,
        ReuseMode::Kernels => {}
        ReuseMode::Unsupported => notes.push(Note::new(
            Severity::Error,
            "This kernel is too old for net/ipv4/vs/conn_reuse_mode: connections that reuse a port may go wrong",
        )),
    }
    ensure("net/ipv4/vs/expire_nodest_conn", "1")?;
    ensure("net/ipv4/vs/expire_quiescent_template", "1")?;
    ensure("net/ipv4/ip_forward", "1")?;
    if options.strict_arp {
        ensure("net/ipv4/conf/all/arp_ignore", "1")?;
        ensure("net/ipv4/conf/all/arp_announce", "2")?;
    }
    Ok(notes)
}

fn ensure(name: &str, value: &str) -> Result<(), BackendError> {
    sysctl::ensure(name, value).map_err(|error| {
        let doing = "preparing ipvs mode: a kernel setting cannot be made; make it on the node, or let a privileged \
                     init container do it with --init-only";
        BackendError::new(doing).caused_by(error)
    })
}

/// What becomes of connections that reuse a port whose last one is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReuseMode {
    /// Such a connection would be delayed for a second.
    Off,
    /// The kernel does it right.
    Kernels,
    /// There is no such setting.
    Unsupported,
}

fn reuse_mode(release: &str) -> ReuseMode {
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) >= (5, 9) => ReuseMode::Kernels,
        (Some(major), Some(minor)) if (major, minor) < (4, 1) => ReuseMode::Unsupported,
        (Some(_), Some(_)) => ReuseMode::Off,
        // A kernel that does not say so is not an old one.
        (_, None) | (None, _) => ReuseMode::Kernels,
    }
}

/// Without forwarding the kernel drops what virtual servers of IPv6 send on.
pub(super) fn forwarding_note() -> Note {
    let message =
        "IPv6 forwarding is off: Services do not work over IPv6 (sysctl -w net.ipv6.conf.all.forwarding=1)";
    let note = Note::new(Severity::Warning, message).in_family(ferrule_model::IpFamily::V6);
    note.as_event("IPv6ForwardingDisabled")
}

#[cfg(test)]
mod tests {
    use ferrule_model::Protocol;

    use super::*;

    /// Row: ipvs R59
    #[test]
    fn reused_connections_are_seen_to_where_the_kernel_does_not() {
        let modes =
            ["3.10.0-1160.el7.x86_64", "4.1.2", "5.4.0-150-generic", "5.8.18", "5.9.0", "5.15.0", "6.1", "x"];
        let is: Vec<ReuseMode> = modes.iter().map(|release| reuse_mode(release)).collect();
        let old = [ReuseMode::Unsupported, ReuseMode::Off, ReuseMode::Off, ReuseMode::Off];
        assert_eq!((&is[..4], &is[4..]), (&old[..], &[ReuseMode::Kernels; 4][..]));
    }

    #[test]
    fn the_trial_is_a_tcp_server() {
        assert_eq!(TRIAL.protocol, Protocol::Tcp.number());
    }
}
