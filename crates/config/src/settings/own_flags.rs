//! Settings that only flags have: Ferrule's own, and where the API server is.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ferrule_kernel::iptables::AccessPolicy;
use ferrule_kernel::sandbox::Level;
use ferrule_model::parse_cidr;
use ferrule_plan::{ExternalIps, ProxyMode};
use ipnet::IpNet;

use super::cidr::flaw_after;
use super::modes::check_not_negative;
use super::{Collector, CountedServices, CounterSettings, ShadowSettings, StatusPage};
use crate::cli::{CommandLine, flags};
use crate::gates::Gates;
use crate::go::GoDuration;

/// The values of flags that have no field in the configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagOnly {
    /// `--master`
    pub master: String,
    /// `--sandbox`
    pub sandbox: String,
    /// `--allowed-external-ip-cidrs`
    pub external_ip_cidrs: Vec<String>,
    /// `--iptables-access`
    pub iptables_access: String,
    /// `--ipvs-drain-limit`
    pub ipvs_drain_limit: GoDuration,
    /// `--inspect-socket`
    pub inspect_socket: String,
    /// `--status-page`
    pub status_page: bool,
    /// `--service-counters`
    pub service_counters: String,
    /// `--service-counters-limit`
    pub service_counters_limit: i32,
    /// `--shadow`, with `--shadow-settle-time` and `--shadow-bind-address`
    pub shadow: Option<GivenShadow>,
}

/// The values of the flags about shadow mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenShadow {
    /// `--shadow-settle-time`
    pub settle_time: GoDuration,
    /// `--shadow-bind-address`
    pub bind_address: String,
    /// A flag that asks for changes of the host, if there is one.
    pub beside: Option<&'static str>,
}

impl Default for FlagOnly {
    fn default() -> Self {
        Self {
            master: String::new(),
            sandbox: name(Level::default()).to_owned(),
            external_ip_cidrs: Vec::new(),
            iptables_access: access_name(AccessPolicy::default()).to_owned(),
            ipvs_drain_limit: GoDuration::ZERO,
            inspect_socket: String::new(),
            status_page: true,
            shadow: None,
            service_counters: CountedServices::Off.name().to_owned(),
            service_counters_limit: DEFAULT_COUNTER_LIMIT,
        }
    }
}

impl FlagOnly {
    /// The values on a command line.
    pub fn from_command_line(line: &CommandLine) -> Self {
        Self {
            master: line.text(flags::MASTER),
            sandbox: line.text(flags::SANDBOX),
            external_ip_cidrs: line.texts(flags::ALLOWED_EXTERNAL_IP_CIDRS),
            iptables_access: line.text(flags::IPTABLES_ACCESS),
            ipvs_drain_limit: line.duration(flags::IPVS_DRAIN_LIMIT),
            inspect_socket: line.text(flags::INSPECT_SOCKET),
            status_page: line.is_on(flags::STATUS_PAGE),
            shadow: line.is_on(flags::SHADOW).then(|| GivenShadow {
                settle_time: line.duration(flags::SHADOW_SETTLE_TIME),
                bind_address: line.text(flags::SHADOW_BIND_ADDRESS),
                beside: [flags::CLEANUP, flags::INIT_ONLY].into_iter().find(|flag| line.is_on(flag)),
            }),
            service_counters: line.text(flags::SERVICE_COUNTERS),
            service_counters_limit: line.number(flags::SERVICE_COUNTERS_LIMIT),
        }
    }
}

const DEFAULT_COUNTER_LIMIT: i32 = 1000;
/// The kernel's tables and the page of metrics grow with it.
const MAX_COUNTER_LIMIT: usize = 20_000;

const LEVELS: [Level; 3] = [Level::None, Level::Basic, Level::Strict];

fn name(level: Level) -> &'static str {
    match level {
        Level::None => "none",
        Level::Basic => "basic",
        Level::Strict => "strict",
    }
}

pub(super) fn sandbox(given: &FlagOnly, problems: &mut Collector) -> Level {
    let level = LEVELS.into_iter().find(|level| name(*level) == given.sandbox);
    if level.is_none() {
        problems.unsupported("--sandbox", &given.sandbox, &LEVELS.map(name));
    }
    level.unwrap_or_default()
}

const POLICIES: [AccessPolicy; 2] = [AccessPolicy::NetlinkFirst, AccessPolicy::CommandsOnly];

fn access_name(policy: AccessPolicy) -> &'static str {
    match policy {
        AccessPolicy::NetlinkFirst => "netlink",
        AccessPolicy::CommandsOnly => "programs",
    }
}

pub(super) fn iptables_access(given: &FlagOnly, problems: &mut Collector) -> AccessPolicy {
    let policy = POLICIES.into_iter().find(|policy| access_name(*policy) == given.iptables_access);
    if policy.is_none() {
        problems.unsupported("--iptables-access", &given.iptables_access, &POLICIES.map(access_name));
    }
    policy.unwrap_or_default()
}

/// Where questions are answered; empty means nowhere.
pub(super) fn inspect_socket(given: &FlagOnly) -> Option<PathBuf> {
    Some(&given.inspect_socket).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Shadow mode, if it is asked for, and where its metrics are served.
pub(super) fn shadow(
    given: &FlagOnly,
    mode: ProxyMode,
    problems: &mut Collector,
) -> Option<(ShadowSettings, SocketAddr)> {
    let GivenShadow { settle_time, bind_address, beside } = given.shadow.as_ref()?;
    if let Some(flag) = beside {
        problems.forbidden("--shadow", &format!("may not be combined with --{flag}, which changes the host"));
    }
    if mode == ProxyMode::Userspace {
        let reason = "has nothing to compare in userspace mode: only the process that serves knows its rules";
        problems.forbidden("--shadow", reason);
    }
    check_not_negative("--shadow-settle-time", *settle_time, problems);
    let address = bind_address.parse();
    if address.is_err() {
        problems.invalid("--shadow-bind-address", bind_address.as_str(), "must be IP:port");
    }
    Some((ShadowSettings { settle_time: settle_time.to_std() }, address.ok()?))
}

pub(super) fn status_page(given: &FlagOnly) -> StatusPage {
    if given.status_page { StatusPage::Served } else { StatusPage::Off }
}

pub(super) fn service_counters(given: &FlagOnly, problems: &mut Collector) -> CounterSettings {
    let services = CountedServices::ALL.into_iter().find(|which| which.name() == given.service_counters);
    if services.is_none() {
        let names = CountedServices::ALL.map(CountedServices::name);
        problems.unsupported("--service-counters", &given.service_counters, &names);
    }
    let limit = usize::try_from(given.service_counters_limit).ok();
    let limit = limit.filter(|limit| (1..=MAX_COUNTER_LIMIT).contains(limit));
    if limit.is_none() {
        let reason = format!("must be between 1 and {MAX_COUNTER_LIMIT}");
        problems.invalid("--service-counters-limit", &given.service_counters_limit, &reason);
    }
    CounterSettings { services: services.unwrap_or_default(), limit: limit.unwrap_or(1) }
}

/// Zero means that there is no limit.
pub(super) fn ipvs_drain_limit(given: &FlagOnly, problems: &mut Collector) -> Option<Duration> {
    let limit = given.ipvs_drain_limit;
    check_not_negative("--ipvs-drain-limit", limit, problems);
    Some(limit.to_std()).filter(|limit| !limit.is_zero())
}

pub(super) fn external_ips(given: &FlagOnly, gates: &Gates, problems: &mut Collector) -> ExternalIps {
    let reason = "must be a valid CIDR block, such as 192.0.2.0/24 or 2001:db8::/32";
    for (index, text) in given.external_ip_cidrs.iter().enumerate() {
        if let Some(flaw) = flaw_after(reason, text) {
            problems.invalid(
                format!("--{}[{index}]", flags::ALLOWED_EXTERNAL_IP_CIDRS),
                text.as_str(),
                &flaw,
            );
        }
    }
    let blocks: Vec<IpNet> = given.external_ip_cidrs.iter().filter_map(|text| parse_cidr(text)).collect();
    match (gates.is_on("AllowServiceExternalIPs"), given.external_ip_cidrs.is_empty()) {
        (false, _) => ExternalIps::None,
        (true, true) => ExternalIps::All,
        (true, false) => ExternalIps::Within(blocks),
    }
}
