//! A node in ipvs mode, on a kernel in memory.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ferrule_kernel::ipvs::VirtualServerId;
use ferrule_kernel::port::{AddressSets as _, FakeIpvsKernel, VirtualServers as _};
use ferrule_model::IpFamily;
use ferrule_testkit::World;

use super::tables::MemoryTables;
use crate::ipvs::dataplane::IpvsDataplane;
use crate::ipvs::kernel::{INTERFACE, Kernel};
use crate::ipvs::options::LiveOptions;
use crate::ipvs::sets::specs;
use crate::{
    BackendError, Dataplane, IpvsOptions, ModeOptions, SyncReport, Trigger, UserspaceOptions, table_family,
};

/// A node with a plan, a dataplane and what it writes to.
pub struct Node {
    pub world: World,
    pub kernel: FakeIpvsKernel,
    pub tables: MemoryTables,
    pub family: IpFamily,
    options: LiveOptions,
    dataplane: IpvsDataplane,
    interface_is_ours: Arc<AtomicBool>,
}

/// The node of the specification's rows, unless a test says another.
const NODE: &str = "node host addresses 100.101.102.103,fd00::103";

impl Node {
    /// A node of IPv4 with these facts, synced.
    pub fn of(facts: &str) -> Self {
        Self::with("", facts)
    }

    /// The same with settings of the proxy.
    pub fn with(settings: &str, facts: &str) -> Self {
        Self::start(IpFamily::V4, settings, facts, IpvsOptions::default())
    }

    /// A node of one family, with options of the mode.
    pub fn start(family: IpFamily, settings: &str, facts: &str, ipvs: IpvsOptions) -> Self {
        let mut node = Self::unsynced(family, settings, facts, ipvs);
        node.verify();
        node
    }

    /// The same before its first sync.
    pub fn unsynced(family: IpFamily, settings: &str, facts: &str, ipvs: IpvsOptions) -> Self {
        let mut world = World::default();
        world.run_proxy(&format!("mode ipvs\n{settings}")).expect("settings");
        let node = if facts.contains("node ") && facts.lines().any(|line| line.trim().starts_with("node ")) {
            ""
        } else {
            NODE
        };
        world.say(&format!("{node}\n{facts}")).expect("facts");
        world.settle();
        let sync_period = Duration::from_secs(30);
        let options = ModeOptions {
            sync_period,
            localhost_node_ports: false,
            relayed_localhost_node_ports: false,
            node_port_blocks: Vec::new(),
            ipvs,
            userspace: UserspaceOptions::default(),
        };
        let options = LiveOptions::new(&options);
        let (kernel, tables) = (FakeIpvsKernel::new(), MemoryTables::new(table_family(family)));
        let interface_is_ours = Arc::default();
        let dataplane = dataplane(&kernel, &tables, family, &options).sharing(&interface_is_ours);
        Self { world, kernel, tables, family, options, dataplane, interface_is_ours }
    }

    /// Other settings of the mode count from the next sync on.
    pub fn reconfigure(&mut self, ipvs: IpvsOptions) {
        let options = ModeOptions { ipvs, ..self.options.get() };
        self.options.set(&options);
    }

    /// Another period, and how often the loop is asked to verify from then on.
    pub fn verify_every(&mut self, sync_period: Duration) -> Option<Duration> {
        self.options.set(&ModeOptions { sync_period, ..self.options.get() });
        self.dataplane.verify_interval()
    }

    /// Another process takes over.
    pub fn restart(&mut self) {
        self.dataplane = dataplane(&self.kernel, &self.tables, self.family, &self.options);
    }

    /// Reads and corrects everything.
    pub fn verify(&mut self) -> SyncReport {
        self.try_verify().expect("a sync")
    }

    pub fn try_verify(&mut self) -> Result<SyncReport, BackendError> {
        let plan = self.world.family(self.family).expect("a plan");
        self.dataplane.sync(plan, Trigger::verify())
    }

    /// Something changes; returns what is written for it.
    pub fn then(&mut self, facts: &str) -> Vec<String> {
        self.try_then(facts).expect("a sync");
        self.kernel.take_writes()
    }

    pub fn try_then(&mut self, facts: &str) -> Result<SyncReport, BackendError> {
        self.kernel.take_writes();
        let step = self.world.then(facts).expect("facts");
        let delta = step.deltas.get(self.family).cloned().unwrap_or_default();
        let plan = self.world.family(self.family).expect("a plan");
        self.dataplane.sync(plan, Trigger::Changed(&delta))
    }

    /// Something changes, and is synced together with a verification.
    pub fn verify_after(&mut self, facts: &str) -> SyncReport {
        let step = self.world.then(facts).expect("facts");
        let delta = step.deltas.get(self.family).cloned().unwrap_or_default();
        let plan = self.world.family(self.family).expect("a plan");
        self.dataplane.sync(plan, Trigger::Verify { changed: &delta }).expect("a sync")
    }

    /// Does what was deferred.
    pub fn run_deferred(&mut self) -> SyncReport {
        self.try_run_deferred().expect("what was deferred")
    }

    /// The next slice is due now.
    pub fn skip_pause(&mut self) {
        self.dataplane.unread.skip_pause();
    }

    pub fn try_run_deferred(&mut self) -> Result<SyncReport, BackendError> {
        self.dataplane.run_deferred()
    }

    /// What a sync would write.
    pub fn diff(&mut self) -> Vec<String> {
        self.dataplane.diff(self.world.family(self.family).expect("a plan")).expect("a diff").lines
    }

    /// What a dataplane that only reads for this one says a sync would write.
    pub fn read_beside(&self) -> Vec<String> {
        let reader = dataplane(&self.kernel, &self.tables, self.family, &self.options);
        let plan = self.world.family(self.family).expect("a plan");
        reader.sharing(&self.interface_is_ours).diff(plan).expect("a diff").lines
    }

    /// The virtual servers, each with its real servers: `10.96.0.1:80/TCP: 10.244.0.1:80`. A weight other than 1 is shown.
    pub fn servers(&self) -> Vec<String> {
        let mut kernel = self.kernel.clone();
        let mut servers: Vec<_> =
            kernel.list().expect("servers").servers.into_iter().map(|seen| seen.server).collect();
        servers.sort_unstable();
        let mut line = |id: VirtualServerId| {
            let real = kernel.real_servers(&id).expect("real servers");
            let mut real: Vec<_> = real.into_iter().map(|seen| seen.server).collect();
            real.sort_unstable();
            let shown = real.iter().map(|server| match server.weight {
                1 => server.address.to_string(),
                weight => format!("{} weight {weight}", server.address),
            });
            format!("{id}: {}", shown.collect::<Vec<_>>().join(", ")).trim_end().to_owned()
        };
        servers.into_iter().map(|server| line(server.id)).collect()
    }

    /// The flags and the timeout of each virtual server.
    pub fn flags(&self) -> Vec<(u32, u32)> {
        let listed = self.kernel.clone().list().expect("servers").servers;
        listed.into_iter().map(|seen| (seen.server.flags, seen.server.timeout)).collect()
    }

    /// The entries of a set, as `ipset list` shows them.
    pub fn set(&self, name: &str) -> Vec<String> {
        let specs = specs(self.family);
        let spec = specs.iter().find(|spec| &*spec.name == name).expect("a set of ours");
        let mut entries: Vec<_> =
            self.kernel.clone().entries(spec).expect("entries").iter().map(ToString::to_string).collect();
        entries.sort_unstable();
        entries
    }

    /// The sets that have entries.
    pub fn filled_sets(&self) -> Vec<&'static str> {
        let names = crate::ipvs::sets::AddressSet::ALL.map(|set| set.name(self.family));
        let mut filled: Vec<_> = names.into_iter().filter(|name| !self.set(name).is_empty()).collect();
        filled.sort_unstable();
        filled
    }

    /// The addresses on the interface.
    pub fn addresses(&self) -> Vec<String> {
        self.kernel.addresses_of(INTERFACE).iter().map(ToString::to_string).collect()
    }

    /// The rules of a chain, without their comments and the words that introduce a match of a set.
    pub fn chain(&self, table: &str, chain: &str) -> Vec<String> {
        let plain = |rule: String| {
            let mut text = rule;
            while let Some(begin) = text.find("-m comment --comment \"") {
                let after = begin + "-m comment --comment \"".len();
                let end = text[after..].find('"').map_or(text.len(), |end| after + end + 1);
                text.replace_range(begin..end, "");
            }
            let text = text.replace("-m set --match-set ", "");
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        self.tables.rules(table, chain).into_iter().map(plain).collect()
    }

    /// Sets how many connections a real server has.
    pub fn connections(&self, service: &str, server: &str, active: u32, inactive: u32) {
        let server: SocketAddr = server.parse().expect("an address");
        assert!(self.kernel.set_connections(&id(service), server, active, inactive), "no such server");
    }
}

/// A virtual server's id: `10.96.0.1:80` for TCP, `10.96.0.1:53/udp`.
pub fn id(text: &str) -> VirtualServerId {
    let (address, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let address: SocketAddr = address.parse().expect("an address");
    let protocol = match protocol {
        "udp" => 17,
        "sctp" => 132,
        _ => 6,
    };
    VirtualServerId { address: address.ip(), protocol, port: address.port() }
}

fn dataplane(
    kernel: &FakeIpvsKernel,
    tables: &MemoryTables,
    family: IpFamily,
    options: &LiveOptions,
) -> IpvsDataplane {
    let kernel = Kernel {
        servers: Box::new(kernel.clone()),
        sets: Box::new(kernel.clone()),
        links: Box::new(kernel.clone()),
        forwards_ipv6: || true,
    };
    IpvsDataplane::new(kernel, Box::new(tables.clone()), family, options)
}
