//! Settings: the configuration as the program uses it, every choice made, every text parsed.
//!
//! [`Settings::resolve`] is the only way from an effective configuration to settings; it reports all problems at once,
//! with kube-proxy's field paths. What depends on the node (its addresses, its pod blocks) is worked out later, in
//! [`crate::resolve`].

mod addresses;
mod cidr;
mod interface;
mod logging;
mod master_url;
mod modes;
mod origin;
mod own_flags;
mod problem;
mod types;

use std::net::SocketAddr;

use crate::config::{Completed, Effective};
use crate::gates::Gates;
pub use master_url::MasterUrl;
pub(crate) use origin::Origin;
pub use own_flags::{FlagOnly, GivenShadow};
use problem::Collector;
pub use problem::{Problem, Problems};
pub use types::*;

impl Settings {
    /// Turns a completed configuration into settings, or reports everything that is wrong with it.
    ///
    /// The flags given are those that have no field in the file.
    pub fn resolve(completed: &Completed, given: &FlagOnly) -> Result<Self, Problems> {
        let Completed { effective, gates, origin, .. } = completed;
        let mut problems = Collector::default();
        let mut settings = Self::collect(effective, gates, given, &mut problems);
        if let Some((shadow, metrics)) = own_flags::shadow(given, settings.mode, &mut problems) {
            settings = settings.in_shadow(shadow, metrics);
        }
        problems.finish(settings, *origin, effective.configuration.mode.in_effect())
    }

    /// The same beside a proxy that serves: ports and limits of the host are that one's.
    fn in_shadow(self, shadow: ShadowSettings, metrics: SocketAddr) -> Self {
        let (healthz, conntrack) = (Healthz::Off, ConntrackSettings::kept());
        let counters = CounterSettings { services: CountedServices::Off, ..self.counters };
        Self { shadow: Some(shadow), metrics, healthz, conntrack, counters, ..self }
    }

    /// The logging part alone, so that the program can log before the rest is validated.
    pub fn resolve_logging(completed: &Completed) -> Result<LoggingSettings, Problems> {
        let Completed { effective, gates, origin, .. } = completed;
        let mut problems = Collector::default();
        let logging = logging::resolve(&effective.configuration.logging, gates, &mut problems);
        problems.finish(logging, *origin, effective.configuration.mode.in_effect())
    }

    /// Goes through the checks in kube-proxy's order; a field that fails gets a placeholder that is never used.
    fn collect(effective: &Effective, gates: &Gates, given: &FlagOnly, problems: &mut Collector) -> Self {
        let configuration = &effective.configuration;
        let logging = logging::resolve(&configuration.logging, gates, problems);
        let masquerade = modes::masquerade(effective, problems);
        let ipvs = modes::ipvs(configuration, problems);
        modes::check_nftables_bit(configuration, problems);
        let conntrack = modes::conntrack(configuration, problems);
        let oom_score_adj = modes::oom_score_adj(configuration, problems);
        let mode = modes::mode(configuration, gates, problems);
        let client = addresses::client(configuration, &given.master, problems);
        let config_sync_period = modes::config_sync_period(configuration, problems);
        let sync = modes::sync(effective, problems);
        let bind_address = addresses::bind_address(configuration, problems);
        let healthz = addresses::healthz(configuration, problems);
        let metrics = addresses::metrics(configuration, problems);
        let node_port_addresses = addresses::node_port_addresses(configuration, problems);
        let show_hidden_metrics = modes::show_hidden_metrics(configuration, problems);
        let detect_local = modes::detect_local(configuration, problems);
        let cluster_cidrs = addresses::cluster_cidrs(effective, problems);
        let userspace = modes::userspace(configuration, problems);
        Self {
            gates: gates.clone(),
            mode,
            logging,
            client,
            node_name: addresses::node_name_source(configuration),
            bind_address,
            healthz,
            metrics,
            on_bind_failure: if configuration.bind_address_hard_fail {
                OnBindFailure::Exit
            } else {
                OnBindFailure::Retry
            },
            profiling: configuration.enable_profiling,
            show_hidden_metrics,
            sync,
            masquerade,
            localhost_node_ports: configuration.iptables.localhost_node_ports.unwrap_or(true),
            ipvs: IpvsSettings { drain_limit: own_flags::ipvs_drain_limit(given, problems), ..ipvs },
            userspace,
            detect_local,
            cluster_cidrs,
            node_port_addresses,
            oom_score_adj,
            conntrack,
            config_sync_period,
            source_vip: addresses::source_vip(configuration),
            sandbox: own_flags::sandbox(given, problems),
            external_ips: own_flags::external_ips(given, gates, problems),
            iptables_access: own_flags::iptables_access(given, problems),
            inspect_socket: own_flags::inspect_socket(given),
            shadow: None,
            status_page: own_flags::status_page(given),
            counters: own_flags::service_counters(given, problems),
        }
    }
}

#[cfg(test)]
mod tests;
