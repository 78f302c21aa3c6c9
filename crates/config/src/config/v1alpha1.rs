//! `KubeProxyConfiguration` of `kubeproxy.config.k8s.io/v1alpha1`, as written in a file.
//!
//! Plain data with the field groups of the API. An `Option` is a field in which "absent" and "zero" differ.
//! Which fields exist, what they mean and what they default to is in [`crate::config::fields`]; nothing is checked here.

use std::collections::BTreeMap;

use super::mode::WrittenMode;
use crate::go::{GoDuration, Quantity};

/// The API group and version every file must name.
pub const API_VERSION: &str = "kubeproxy.config.k8s.io/v1alpha1";
/// The kind every file must name.
pub const KIND: &str = "KubeProxyConfiguration";

/// A whole configuration file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KubeProxyConfiguration {
    /// `featureGates`
    pub feature_gates: BTreeMap<String, bool>,
    /// `clientConnection`
    pub client_connection: ClientConnection,
    /// `logging`
    pub logging: Logging,
    /// `hostnameOverride`
    pub hostname_override: String,
    /// `bindAddress`
    pub bind_address: String,
    /// `healthzBindAddress`
    pub healthz_bind_address: String,
    /// `metricsBindAddress`
    pub metrics_bind_address: String,
    /// `bindAddressHardFail`
    pub bind_address_hard_fail: bool,
    /// `enableProfiling`
    pub enable_profiling: bool,
    /// `showHiddenMetricsForVersion`
    pub show_hidden_metrics_for_version: String,
    /// `mode`
    pub mode: WrittenMode,
    /// `iptables`
    pub iptables: Iptables,
    /// `ipvs`
    pub ipvs: Ipvs,
    /// `nftables`
    pub nftables: Nftables,
    /// `winkernel`
    pub winkernel: Winkernel,
    /// `detectLocalMode`
    pub detect_local_mode: String,
    /// `detectLocal`
    pub detect_local: DetectLocal,
    /// `clusterCIDR`
    pub cluster_cidr: String,
    /// `nodePortAddresses`; an absent list and an empty one are written back differently.
    pub node_port_addresses: Option<Vec<String>>,
    /// `oomScoreAdj`
    pub oom_score_adj: Option<i32>,
    /// `conntrack`
    pub conntrack: Conntrack,
    /// `configSyncPeriod`
    pub config_sync_period: GoDuration,
    /// `portRange`
    pub port_range: String,
    /// `windowsRunAsService`
    pub windows_run_as_service: bool,
    /// `udpIdleTimeout`, gone from the API since 1.26; the userspace mode uses it.
    pub udp_idle_timeout: Option<GoDuration>,
    /// `resourceContainer`, gone from the API since long.
    pub resource_container: String,
}

/// `clientConnection`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientConnection {
    /// `kubeconfig`
    pub kubeconfig: String,
    /// `acceptContentTypes`
    pub accept_content_types: String,
    /// `contentType`
    pub content_type: String,
    /// `qps`
    pub qps: f32,
    /// `burst`
    pub burst: i32,
}

/// `logging`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Logging {
    /// `format`
    pub format: String,
    /// `flushFrequency`
    pub flush_frequency: FlushFrequency,
    /// `verbosity`
    pub verbosity: u32,
    /// `vmodule`
    pub vmodule: Vec<VModuleItem>,
    /// `options.text`
    pub text: OutputOptions,
    /// `options.json`
    pub json: OutputOptions,
}

/// A time that may be written as text or as a number of nanoseconds, and is written back the same way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushFrequency {
    /// The time between flushes.
    pub every: GoDuration,
    /// How the file spelled it.
    pub spelling: FlushSpelling,
}

/// The two spellings of `logging.flushFrequency`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlushSpelling {
    /// `5s`
    #[default]
    Text,
    /// `5000000000`
    Nanoseconds,
}

/// One entry of `logging.vmodule`: a verbosity for the source files a pattern matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VModuleItem {
    /// `filePattern`
    pub file_pattern: String,
    /// `verbosity`
    pub verbosity: u32,
}

/// `logging.options.text` and `logging.options.json`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputOptions {
    /// `splitStream`
    pub split_stream: bool,
    /// `infoBufferSize`
    pub info_buffer_size: Quantity,
}

impl Default for OutputOptions {
    fn default() -> Self {
        Self { split_stream: false, info_buffer_size: Quantity::ZERO }
    }
}

/// `iptables`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Iptables {
    /// `masqueradeBit`
    pub masquerade_bit: Option<i32>,
    /// `masqueradeAll`
    pub masquerade_all: bool,
    /// `localhostNodePorts`
    pub localhost_node_ports: Option<bool>,
    /// `syncPeriod`
    pub sync_period: GoDuration,
    /// `minSyncPeriod`
    pub min_sync_period: GoDuration,
}

/// `ipvs`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ipvs {
    /// `syncPeriod`
    pub sync_period: GoDuration,
    /// `minSyncPeriod`
    pub min_sync_period: GoDuration,
    /// `scheduler`
    pub scheduler: String,
    /// `excludeCIDRs`
    pub exclude_cidrs: Option<Vec<String>>,
    /// `strictARP`
    pub strict_arp: bool,
    /// `tcpTimeout`
    pub tcp_timeout: GoDuration,
    /// `tcpFinTimeout`
    pub tcp_fin_timeout: GoDuration,
    /// `udpTimeout`
    pub udp_timeout: GoDuration,
}

/// `nftables`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Nftables {
    /// `masqueradeBit`
    pub masquerade_bit: Option<i32>,
    /// `masqueradeAll`
    pub masquerade_all: bool,
    /// `syncPeriod`
    pub sync_period: GoDuration,
    /// `minSyncPeriod`
    pub min_sync_period: GoDuration,
}

/// `winkernel`, of which Linux reads `sourceVip` alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Winkernel {
    /// `networkName`
    pub network_name: String,
    /// `sourceVip`
    pub source_vip: String,
    /// `enableDSR`
    pub enable_dsr: bool,
    /// `rootHnsEndpointName`
    pub root_hns_endpoint_name: String,
    /// `forwardHealthCheckVip`
    pub forward_health_check_vip: bool,
}

/// `detectLocal`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DetectLocal {
    /// `bridgeInterface`
    pub bridge_interface: String,
    /// `interfaceNamePrefix`
    pub interface_name_prefix: String,
}

/// `conntrack`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conntrack {
    /// `maxPerCore`
    pub max_per_core: Option<i32>,
    /// `min`
    pub min: Option<i32>,
    /// `tcpEstablishedTimeout`
    pub tcp_established_timeout: Option<GoDuration>,
    /// `tcpCloseWaitTimeout`
    pub tcp_close_wait_timeout: Option<GoDuration>,
    /// `tcpBeLiberal`
    pub tcp_be_liberal: bool,
    /// `udpTimeout`
    pub udp_timeout: GoDuration,
    /// `udpStreamTimeout`
    pub udp_stream_timeout: GoDuration,
}
