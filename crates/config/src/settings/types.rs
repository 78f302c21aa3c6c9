//! What settings are made of: one type for each choice, so that a wrong one cannot be said.
//!
//! Plain data; how it comes about is in [`super::Settings::resolve`].

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ferrule_kernel::iptables::AccessPolicy;
use ferrule_kernel::sandbox::Level;
use ferrule_model::NodePortSelector;
use ferrule_plan::{ExternalIps, ProxyMode};
use ipnet::IpNet;

use super::MasterUrl;
use crate::gates::Gates;

/// Everything a run needs to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Feature gates.
    pub gates: Gates,
    /// How Services are served.
    pub mode: ProxyMode,
    /// How the log is written.
    pub logging: LoggingSettings,
    /// How the API server is reached.
    pub client: ClientSettings,
    /// Where the node's name comes from.
    pub node_name: NodeNameSource,
    /// The node's address, unless unspecified.
    pub bind_address: IpAddr,
    /// Where health checks are answered.
    pub healthz: Healthz,
    /// Where metrics are served.
    pub metrics: SocketAddr,
    /// What to do when a port cannot be bound.
    pub on_bind_failure: OnBindFailure,
    /// Whether profiles are served.
    pub profiling: bool,
    /// Whether hidden metrics are shown.
    pub show_hidden_metrics: bool,
    /// How often the kernel's state is brought in line.
    pub sync: SyncSettings,
    /// Which packets are masqueraded, and how they are marked.
    pub masquerade: Masquerade,
    /// Whether NodePorts are served on 127.0.0.1 in iptables mode.
    pub localhost_node_ports: bool,
    /// What ipvs mode alone wants.
    pub ipvs: IpvsSettings,
    /// What userspace mode alone wants.
    pub userspace: UserspaceSettings,
    /// How traffic from this node's pods is recognised.
    pub detect_local: DetectLocal,
    /// All pods' address blocks, as configured; sanity checks use them in every detection mode.
    pub cluster_cidrs: Vec<IpNet>,
    /// Which of the node's addresses accept NodePorts; empty means all.
    pub node_port_addresses: Vec<NodePortSelector>,
    /// The process's `oom_score_adj`.
    pub oom_score_adj: i32,
    /// Limits and timeouts for conntrack.
    pub conntrack: ConntrackSettings,
    /// How often everything from the API server is gone through again.
    pub config_sync_period: Duration,
    /// Families of `winkernel.sourceVip`, which Linux only checks.
    pub source_vip: SourceVip,
    /// Which rights are given up.
    pub sandbox: Level,
    /// Which external IPs of Services are served.
    pub external_ips: ExternalIps,
    /// How iptables rules are read and written.
    pub iptables_access: AccessPolicy,
    /// The unix socket on which questions are answered, if there is one.
    pub inspect_socket: Option<PathBuf>,
    /// Whether there is a page for people on the metrics address.
    pub status_page: StatusPage,
    /// Another proxy serves, and this one only looks.
    pub shadow: Option<ShadowSettings>,
    /// Which connections are counted.
    pub counters: CounterSettings,
}

/// How rules are compared in shadow mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShadowSettings {
    /// How long a difference must last.
    pub settle_time: Duration,
}

/// Whether there is a page for people on the metrics address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusPage {
    /// There is.
    Served,
    /// There is none.
    Off,
}

/// Which connections are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterSettings {
    /// Those of which Services.
    pub services: CountedServices,
    /// At most so many Service ports are counted.
    pub limit: usize,
}

/// Services whose connections are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CountedServices {
    /// None.
    #[default]
    Off,
    /// Those that carry the label or annotation `ferrule.dev/counters: "true"`.
    Labelled,
    /// All.
    All,
}

impl CountedServices {
    /// All choices.
    pub const ALL: [Self; 3] = [Self::Off, Self::Labelled, Self::All];

    /// As flags spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Labelled => "labelled",
            Self::All => "all",
        }
    }
}

/// How the log is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggingSettings {
    /// text or json.
    pub format: LogFormat,
    /// How much is logged.
    pub verbosity: u32,
    /// Other verbosities for files that match a pattern; the first match decides.
    pub vmodule: Vec<(String, u32)>,
    /// Longest time buffered lines stay unwritten.
    pub flush_every: Duration,
    /// Where informational lines go.
    pub info_stream: InfoStream,
}

impl Default for LoggingSettings {
    /// What counts until the configuration is known.
    fn default() -> Self {
        Self {
            format: LogFormat::Text,
            verbosity: 0,
            vmodule: Vec::new(),
            flush_every: Duration::from_secs(5),
            info_stream: InfoStream::Stderr,
        }
    }
}

/// Forms of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// klog's lines.
    Text,
    /// One object per line.
    Json,
}

/// Where informational lines go; errors always go to stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InfoStream {
    /// With the errors.
    Stderr,
    /// To stdout, with a buffer of this many bytes.
    Stdout {
        /// 0 writes every line at once.
        buffer: usize,
    },
}

/// How the API server is reached.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientSettings {
    /// Where its address and our credentials come from.
    pub access: ApiAccess,
    /// The Accept header.
    pub accept: String,
    /// The content type of requests.
    pub content_type: String,
    /// How many requests may be sent.
    pub rate: RequestRate,
}

/// Where the API server's address and our credentials come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiAccess {
    /// The pod's service account.
    InCluster,
    /// A kubeconfig file.
    Kubeconfig {
        /// Its path.
        path: String,
    },
    /// A URL without credentials but those in it.
    Master {
        /// The URL.
        url: MasterUrl,
    },
    /// A kubeconfig file whose server is replaced.
    KubeconfigWithMaster {
        /// Its path.
        path: String,
        /// The URL.
        url: MasterUrl,
    },
}

/// How many requests may be sent to the API server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RequestRate {
    /// As many as come up.
    Unlimited,
    /// A token bucket.
    Limited {
        /// Tokens per second.
        per_second: f32,
        /// Size of the bucket.
        burst: u32,
    },
}

/// Where the node's name comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeNameSource {
    /// The operating system's host name.
    Hostname,
    /// The configuration or a flag, as written; it may still turn out to be blank.
    Override(String),
}

/// Where health checks are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Healthz {
    /// Nowhere.
    Off,
    /// Here.
    At(SocketAddr),
}

/// What to do when a port cannot be bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnBindFailure {
    /// Try again every five seconds.
    Retry,
    /// Exit.
    Exit,
}

/// How often the kernel's state is brought in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncSettings {
    /// Retry and re-check period.
    pub period: Duration,
    /// Shortest time between two syncs.
    pub min_period: Duration,
    /// Whether the user asked for it; otherwise it is only the longest pause there may be.
    pub min_period_is_set: bool,
}

/// Which packets are masqueraded, and how they are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Masquerade {
    /// Everything sent to a cluster IP.
    pub all: bool,
    /// The packet mark, one bit.
    pub mark: u32,
}

/// What ipvs mode alone wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpvsSettings {
    /// The scheduler, `rr` unless said.
    pub scheduler: String,
    /// Blocks whose virtual servers are left alone.
    pub exclude_cidrs: Vec<IpNet>,
    /// Whether ARP answers are kept to the right interface.
    pub strict_arp: bool,
    /// Idle time of TCP connections.
    pub tcp_timeout: KernelValue<Duration>,
    /// Time after a FIN.
    pub tcp_fin_timeout: KernelValue<Duration>,
    /// Idle time of UDP flows.
    pub udp_timeout: KernelValue<Duration>,
    /// How long a real server that left may keep its connections, if there is a limit.
    pub drain_limit: Option<Duration>,
}

/// What userspace mode alone wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserspaceSettings {
    /// Ports it may open.
    pub ports: PortRange,
    /// Time after which an idle UDP client is forgotten.
    pub udp_idle_timeout: Duration,
}

/// Ports the userspace mode may open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortRange {
    /// Whatever the kernel gives.
    Any,
    /// These, both ends included.
    Between {
        /// The lowest.
        first: u16,
        /// The highest.
        last: u16,
    },
}

/// A kernel setting that may be left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelValue<T> {
    /// Whatever it is.
    Keep,
    /// To be set.
    Set(T),
}

/// How traffic from this node's pods is recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DetectLocal {
    /// By the cluster's pod blocks.
    ClusterCidr,
    /// By this node's pod blocks, which the Node object names.
    NodeCidr,
    /// By the bridge they come through.
    BridgeInterface(String),
    /// By how the interface's name begins.
    InterfaceNamePrefix(String),
}

/// Limits and timeouts for conntrack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConntrackSettings {
    /// Connections per core.
    pub max_per_core: KernelValue<u32>,
    /// Connections at least.
    pub min: u32,
    /// Idle time of established TCP connections.
    pub tcp_established_timeout: KernelValue<Duration>,
    /// Idle time in `CLOSE_WAIT`.
    pub tcp_close_wait_timeout: KernelValue<Duration>,
    /// Whether packets outside the window pass.
    pub tcp_be_liberal: bool,
    /// Idle time of unanswered UDP flows.
    pub udp_timeout: KernelValue<Duration>,
    /// Idle time of answered UDP flows.
    pub udp_stream_timeout: KernelValue<Duration>,
}

impl ConntrackSettings {
    /// The host's, whatever they are.
    pub fn kept() -> Self {
        Self {
            max_per_core: KernelValue::Keep,
            min: 0,
            tcp_established_timeout: KernelValue::Keep,
            tcp_close_wait_timeout: KernelValue::Keep,
            tcp_be_liberal: false,
            udp_timeout: KernelValue::Keep,
            udp_stream_timeout: KernelValue::Keep,
        }
    }
}

/// The Windows source address, of which Linux checks the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceVip {
    /// Not set, or no address.
    None,
    /// Set.
    Address(IpAddr),
}
