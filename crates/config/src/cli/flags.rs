//! The table of flags: kube-proxy's names, types and defaults, with documentation of our own.
//!
//! Parser, help, `docs/flags.md`, completion, man page and the comparison with the real kube-proxy all read it.
//! The rows are in `process` and `traffic`; this file says what a row is.

mod process;
mod traffic;

/// `--config`
pub const CONFIG: &str = "config";
/// `--write-config-to`
pub const WRITE_CONFIG_TO: &str = "write-config-to";
/// `--cleanup`
pub const CLEANUP: &str = "cleanup";
/// `--init-only`
pub const INIT_ONLY: &str = "init-only";
/// `--manifests`
pub const MANIFESTS: &str = "manifests";
pub(crate) const HOSTNAME_OVERRIDE: &str = "hostname-override";
/// `--sandbox`
pub const SANDBOX: &str = "sandbox";
/// `--inspect-socket`
pub const INSPECT_SOCKET: &str = "inspect-socket";
/// `--shadow`
pub const SHADOW: &str = "shadow";
/// `--shadow-settle-time`
pub const SHADOW_SETTLE_TIME: &str = "shadow-settle-time";
/// `--shadow-bind-address`
pub const SHADOW_BIND_ADDRESS: &str = "shadow-bind-address";
/// `--status-page`
pub const STATUS_PAGE: &str = "status-page";
/// `--service-counters`
pub const SERVICE_COUNTERS: &str = "service-counters";
/// `--service-counters-limit`
pub const SERVICE_COUNTERS_LIMIT: &str = "service-counters-limit";
/// `--allowed-external-ip-cidrs`
pub const ALLOWED_EXTERNAL_IP_CIDRS: &str = "allowed-external-ip-cidrs";
/// `--iptables-access`
pub const IPTABLES_ACCESS: &str = "iptables-access";
/// `--ipvs-drain-limit`
pub const IPVS_DRAIN_LIMIT: &str = "ipvs-drain-limit";
/// `--master`
pub const MASTER: &str = "master";
pub(crate) const HEALTHZ_PORT: &str = "healthz-port";
pub(crate) const METRICS_PORT: &str = "metrics-port";
pub(crate) const MASQUERADE_ALL: &str = "masquerade-all";
pub(crate) const CLUSTER_CIDR: &str = "cluster-cidr";
pub(crate) const IPTABLES_SYNC_PERIOD: &str = "iptables-sync-period";
pub(crate) const IPTABLES_MIN_SYNC_PERIOD: &str = "iptables-min-sync-period";
pub(crate) const IPVS_SYNC_PERIOD: &str = "ipvs-sync-period";
pub(crate) const IPVS_MIN_SYNC_PERIOD: &str = "ipvs-min-sync-period";
/// `--proxy-mode`
pub const PROXY_MODE: &str = "proxy-mode";
/// `--detect-local-mode`
pub const DETECT_LOCAL_MODE: &str = "detect-local-mode";
/// `--version`
pub const VERSION: &str = "version";
pub(crate) const HELP: &str = "help";

/// One flag.
#[derive(Debug)]
pub struct Flag {
    /// The long name, without dashes.
    pub name: &'static str,
    /// The one-letter name.
    pub short: Option<char>,
    /// What values it takes.
    pub kind: FlagKind,
    /// The default, as Go prints it.
    pub default: &'static str,
    /// The configuration field it sets; empty for flags that are no setting, or set more than one.
    pub field: &'static str,
    /// What becomes of it when `--config` names a file.
    pub with_config_file: WithConfigFile,
    /// Whether it is current, deprecated or removed.
    pub lifecycle: Lifecycle,
    /// One or two sentences for the reader of the help text.
    pub doc: &'static str,
}

/// The kinds of values flags take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagKind {
    /// `--name` or `--name=bool`
    Bool,
    /// Any text.
    Text,
    /// A 32-bit integer, base prefixes allowed.
    Int32,
    /// A 32-bit float.
    Float32,
    /// A Go duration.
    Duration,
    /// An IP address; empty keeps the default.
    Ip,
    /// An IP address with or without a port; empty keeps the default.
    IpPort,
    /// A comma-separated list; repeating the flag appends.
    TextList,
    /// `Gate=bool,…`; repeating the flag adds.
    Gates,
    /// A proxy mode; checked later, with the rest of the configuration.
    ProxyMode,
    /// A way to detect local traffic; checked later.
    LocalMode,
    /// A log verbosity.
    Level,
    /// `pattern=N,…`
    VModule,
    /// A Kubernetes quantity.
    Quantity,
    /// `--version`, `--version=raw`, `--version=vX.Y.Z`
    Version,
}

/// What becomes of a flag when a configuration file is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithConfigFile {
    /// The file alone counts; the flag is parsed and otherwise ignored.
    Ignored,
    /// The flag has no field in the file and always counts.
    Counts,
    /// The flag wins over the file, or is added to it.
    Merged,
}

/// Where a flag is between its introduction and its removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifecycle {
    /// In use.
    Current,
    /// Works, is not shown, and says this hint when used.
    Deprecated(&'static str),
    /// Gone from kube-proxy since this release; accepted so that old manifests start, and not shown.
    GoneSince(&'static str),
}

impl Flag {
    /// Whether `--help` lists it.
    pub fn is_shown(&self) -> bool {
        self.lifecycle == Lifecycle::Current
    }

    /// What a value of it is called in the help text; empty for a switch.
    pub fn value_word(&self) -> &'static str {
        match self.kind {
            FlagKind::Bool => "",
            FlagKind::Text => "string",
            FlagKind::Int32 => "int32",
            FlagKind::Float32 => "float32",
            FlagKind::Duration => "duration",
            FlagKind::Ip => "ip",
            FlagKind::IpPort => "ipport",
            FlagKind::TextList => "strings",
            FlagKind::Gates => "mapStringBool",
            FlagKind::ProxyMode => "ProxyMode",
            FlagKind::LocalMode => "LocalMode",
            FlagKind::Level => "Level",
            FlagKind::VModule => "pattern=N,...",
            FlagKind::Quantity => "quantity",
            FlagKind::Version => "version[=true]",
        }
    }

    /// The value a flag has when it is named without one.
    pub fn bare_value(&self) -> Option<&'static str> {
        matches!(self.kind, FlagKind::Bool | FlagKind::Version).then_some("true")
    }
}

/// All flags, sorted by name.
pub fn all() -> Vec<&'static Flag> {
    let mut flags: Vec<&'static Flag> = process::FLAGS.iter().chain(traffic::FLAGS).collect();
    flags.sort_by_key(|flag| flag.name);
    flags
}

/// The flag with exactly this name.
pub fn find(name: &str) -> Option<&'static Flag> {
    process::FLAGS.iter().chain(traffic::FLAGS).find(|flag| flag.name == name)
}

/// The flag with this one-letter name.
pub(crate) fn find_short(letter: char) -> Option<&'static Flag> {
    process::FLAGS.iter().chain(traffic::FLAGS).find(|flag| flag.short == Some(letter))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::fields;

    #[test]
    fn every_field_a_flag_names_exists_and_takes_its_values() {
        for flag in all().into_iter().filter(|flag| !flag.field.is_empty()) {
            let field =
                fields::find(flag.field).unwrap_or_else(|| panic!("{} sets {}", flag.name, flag.field));
            let mut configuration = crate::config::KubeProxyConfiguration::default();
            let default = crate::cli::values::default_value(flag);
            assert!((field.slot)(&mut configuration).put(default).is_ok(), "{}", flag.name);
        }
    }

    #[test]
    fn defaults_of_flags_are_the_defaults_of_their_fields() {
        let mut configuration = crate::config::KubeProxyConfiguration::default();
        crate::config::defaults::fill_defaults(&mut configuration);
        // An absent list and an empty one print alike; the userspace timeout is filled in later.
        let comparable =
            all().into_iter().filter(|flag| !flag.field.is_empty() && flag.name != "udp-timeout");
        for flag in comparable.filter(|flag| flag.kind != FlagKind::TextList) {
            let field = fields::find(flag.field).expect("checked above");
            let mut from_flag = configuration.clone();
            let _ = (field.slot)(&mut from_flag).put(crate::cli::values::default_value(flag));
            assert_eq!(field.value(&from_flag), field.value(&configuration), "{}", flag.name);
        }
    }

    #[test]
    fn names_are_unique_and_the_named_ones_exist() {
        let names: Vec<_> = all().iter().map(|flag| flag.name).collect();
        let mut unique = names.clone();
        unique.dedup();
        assert_eq!(names, unique);
        for name in [
            CONFIG,
            WRITE_CONFIG_TO,
            CLEANUP,
            INIT_ONLY,
            MANIFESTS,
            SANDBOX,
            ALLOWED_EXTERNAL_IP_CIDRS,
            HOSTNAME_OVERRIDE,
            MASTER,
            HEALTHZ_PORT,
            METRICS_PORT,
            MASQUERADE_ALL,
            CLUSTER_CIDR,
            IPTABLES_SYNC_PERIOD,
            IPTABLES_MIN_SYNC_PERIOD,
            IPVS_SYNC_PERIOD,
            IPVS_MIN_SYNC_PERIOD,
            PROXY_MODE,
            DETECT_LOCAL_MODE,
            VERSION,
            HELP,
        ] {
            assert!(find(name).is_some(), "{name}");
        }
    }
}
