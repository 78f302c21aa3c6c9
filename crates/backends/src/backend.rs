//! A proxy mode's whole life: what it needs of the host, how it opens, what it watches, what it leaves behind.
//!
//! The program knows modes only through [`Backend`] and [`Dataplane`]. `ARCHITECTURE.md` has the recipe for
//! one more mode; [`backend`] is the one place where a mode's name becomes code.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ferrule_kernel::iptables::{AccessPolicy, TableAccess};
use ferrule_kernel::ipvs::Timeouts;
use ferrule_model::{IpFamily, PerFamily};
use ferrule_plan::{LoopbackNodePorts, ProxyMode, Quirks};
use ferrule_relay::ports::PortRange;
use ipnet::IpNet;

use crate::cleanup::{CleanupProgress, EntryPoints, OpenConnections, Unused};
use crate::counters::{ConnectionCounters, TableCounters};
use crate::metrics::{MetricDeclaration, ScrapeSource};
use crate::{BackendError, Dataplane, KernelReader, Note, RuleEventSink};
use crate::{iptables, ipvs, nftables, userspace};

/// The backend of a mode.
pub fn backend(mode: ProxyMode) -> Box<dyn Backend> {
    match mode {
        ProxyMode::Iptables => Box::new(iptables::Iptables::default()),
        ProxyMode::Ipvs => Box::new(ipvs::Ipvs::default()),
        ProxyMode::Nftables => Box::new(nftables::Nftables::default()),
        ProxyMode::Userspace => Box::new(userspace::Userspace::default()),
    }
}

/// A proxy mode. Its life runs from [`Self::probe`] to [`Self::watch`], in the order of the methods, on the thread of the loop;
/// what [`Self::cleanup`] returns runs on another.
pub trait Backend: Send {
    /// Which one it is.
    fn mode(&self) -> ProxyMode;

    /// How it reads and writes iptables rules, if it has any. Called before anything else is done.
    fn set_iptables_access(&mut self, _policy: AccessPolicy) {}

    /// Where kube-proxy's mode differs from the others, for the planner.
    fn quirks(&self) -> Quirks {
        Quirks::NONE
    }

    /// What becomes of NodePorts on loopback addresses.
    fn loopback_node_ports(&self, _options: &ModeOptions) -> LoopbackNodePorts {
        LoopbackNodePorts::NotServed
    }

    /// The metrics that only this mode has. Known before anything else is done.
    fn metrics(&self) -> &'static [&'static MetricDeclaration] {
        &[]
    }

    /// What an operator should know about having chosen this mode, or not having chosen one.
    fn advice(&self, _choice: ModeChoice) -> Option<Advice> {
        None
    }

    /// The rights it needs beside `CAP_NET_ADMIN`. Asked before rights are given up.
    fn rights(&self) -> Rights {
        Rights::default()
    }

    /// Finds out what works on this host, and changes nothing.
    fn probe(&mut self) -> Probe;

    /// Sets what the mode needs of the host, before the first rules: at a start, and for `--init-only`.
    fn prepare_host(&mut self, _options: &ModeOptions) -> Result<Vec<Note>, BackendError> {
        Ok(Vec::new())
    }

    /// Opens a dataplane for each of these families.
    fn open(&mut self, families: &[IpFamily], options: &ModeOptions) -> Result<Opened, BackendError>;

    /// What is read from the kernel whenever metrics are scraped. Asked after [`Self::open`].
    fn scrape_sources(&self) -> Vec<Box<dyn ScrapeSource>> {
        Vec::new()
    }

    /// Counts connections, at most of so many Service ports. Asked after [`Self::open`], if they are to be counted.
    fn counters(
        &self,
        families: &[IpFamily],
        limit: usize,
    ) -> Result<Box<dyn ConnectionCounters>, BackendError> {
        Ok(Box::new(TableCounters::open(families, limit)?))
    }

    /// Whether [`Self::counters`] are in tables of their own, which stay when the process ends.
    fn counts_in_tables(&self) -> bool {
        true
    }

    /// Compares plans with the kernel on other threads than the loop's. Asked after [`Self::probe`]. `None` where only the open
    /// dataplanes know what they serve.
    fn reader(&self, _options: &ModeOptions) -> Option<KernelReader> {
        None
    }

    /// Compares plans with what kube-proxy has in the kernel in this mode. Asked after [`Self::probe`].
    fn shadow_reader(&self, options: &ModeOptions) -> Option<KernelReader> {
        self.reader(options)
    }

    /// Like [`Self::probe`], for shadow mode: not even a change that is taken back at once is tried.
    fn shadow_probe(&mut self) -> Probe {
        self.probe()
    }

    /// Whether it only looks, and another proxy serves.
    fn is_shadow(&self) -> bool {
        false
    }

    /// Begins to watch the rules, once the first sync was tried. What watches ends with the loop.
    fn watch(&mut self, sink: Arc<dyn RuleEventSink>) -> Result<(), BackendError>;

    /// How long connections that this process relays may go on once it is asked to end.
    fn shutdown_grace(&self) -> Duration {
        Duration::from_millis(1500)
    }

    /// Takes over other options while it runs. Rules that depend on them are written by the next sync.
    fn reconfigure(&mut self, _options: &ModeOptions) -> Vec<Note> {
        Vec::new()
    }

    /// What of the host this run uses, so that it is not removed as a leftover.
    fn in_use(&self) -> InUse {
        InUse { mode: self.mode(), iptables: PerFamily::default() }
    }

    /// What removes leftovers that this run does not use: other modes', and those of other variants of this one. Runs on a thread
    /// of its own once the first sync succeeded, repeatedly until it succeeds.
    ///
    /// What open connections need stays until they end, or for at most this long.
    fn cleanup(&self, drain_limit: Option<Duration>) -> Cleanup {
        let mut unused = Unused::new(self.in_use(), drain_limit);
        Box::new(move || unused.remove())
    }

    /// Removes what leads packets to what this mode left, before the rules of any mode go: they may protect it.
    fn remove_entry_points(
        &self,
        _in_use: Option<&InUse>,
        _connections: OpenConnections,
    ) -> Result<EntryPoints, BackendError> {
        Ok(EntryPoints::default())
    }

    /// Removes what this mode left on the host, kube-proxy's and ours, but nothing that is in use.
    fn remove_leftovers(&self, _in_use: Option<&InUse>) -> Result<Vec<Leftover>, BackendError> {
        Ok(Vec::new())
    }

    /// Removes of it what must not wait for open connections and is not needed for them. May be called for nothing.
    fn remove_obstacles(&self, _in_use: &InUse) -> Result<Vec<Leftover>, BackendError> {
        Ok(Vec::new())
    }
}

/// The settings that modes need, as plain values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeOptions {
    /// How soon missing rules are noticed where the kernel does not announce changes.
    pub sync_period: Duration,
    /// Whether NodePorts are to be served on loopback addresses.
    pub localhost_node_ports: bool,
    /// Whether NodePorts are to be served on loopback addresses where rules cannot do that: the gate
    /// `KubeProxyNFTablesLocalhostNodePorts`.
    pub relayed_localhost_node_ports: bool,
    /// The blocks of addresses that accept NodePorts; empty for all.
    pub node_port_blocks: Vec<IpNet>,
    /// What ipvs mode alone wants.
    pub ipvs: IpvsOptions,
    /// What userspace mode alone wants.
    pub userspace: UserspaceOptions,
}

/// The settings of userspace mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserspaceOptions {
    /// The ports that sockets of Services may have.
    pub ports: PortRange,
    /// How long an idle UDP client is remembered.
    pub udp_idle_timeout: Duration,
    /// The address that sockets are bound to; all of them if there is none.
    pub bind_address: Option<IpAddr>,
}

impl Default for UserspaceOptions {
    fn default() -> Self {
        Self { ports: PortRange::Any, udp_idle_timeout: Duration::from_millis(250), bind_address: None }
    }
}

/// The settings of ipvs mode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpvsOptions {
    /// The scheduler; `rr` if it is empty.
    pub scheduler: String,
    /// Blocks whose virtual servers are never removed.
    pub exclude_cidrs: Vec<IpNet>,
    /// Whether only the interface that has an address answers ARP requests for it.
    pub strict_arp: bool,
    /// Idle times after which the kernel forgets connections, in seconds; 0 leaves the kernel's.
    pub timeouts: Timeouts,
    /// How long a real server that left may keep its connections; for ever if there is no limit.
    pub drain_limit: Option<Duration>,
}

/// Who chose the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeChoice {
    /// A flag or the configuration file.
    Explicit,
    /// No one: it is the default.
    Default,
}

/// A warning about the mode, for the log and as an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The Event's reason, as kube-proxy has it.
    pub reason: &'static str,
    /// What to know.
    pub text: &'static str,
}

/// Rights that most modes do not need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// `CAP_NET_RAW`
    pub raw_sockets: bool,
    /// `CAP_SYS_MODULE`
    pub load_modules: bool,
    /// A limit on open files that is worth raising, where that is permitted; 0 if the one there is will do.
    pub descriptors: u64,
}

/// What works on this host.
#[derive(Debug)]
pub struct Probe {
    /// For each family, whether it can be served.
    pub families: PerFamily<Result<(), BackendError>>,
    /// What else was found.
    pub notes: Vec<Note>,
}

impl Probe {
    /// No family can be served, for one reason.
    pub(crate) fn nothing_works(error: impl Fn() -> BackendError) -> Self {
        Self { families: PerFamily { v4: Some(Err(error())), v6: Some(Err(error())) }, notes: Vec::new() }
    }
}

/// The dataplanes of the families that are served.
pub struct Opened {
    /// One for each family.
    pub dataplanes: PerFamily<Box<dyn Dataplane>>,
    /// What was found on the way.
    pub notes: Vec<Note>,
}

/// What of the host a run uses.
#[derive(Clone, Copy, Debug)]
pub struct InUse {
    /// Its mode.
    pub mode: ProxyMode,
    /// How its iptables rules are written, by family, if the mode has any.
    pub iptables: PerFamily<TableAccess>,
}

/// One try to remove leftovers: what was removed, and whether anything is left or could not be removed.
pub type Cleanup = Box<dyn FnMut() -> (Vec<Leftover>, Result<CleanupProgress, BackendError>) + Send>;

/// Something that was left on the host and was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The mode that left it.
    pub mode: ProxyMode,
    /// What it was.
    pub what: &'static str,
    /// How many of them.
    pub objects: usize,
}
