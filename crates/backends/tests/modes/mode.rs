//! A proxy mode under test, and what the tests need of it.

use std::process::Command;
use std::time::Duration;
use std::{env, thread};

use ferrule_backends::iptables::Iptables;
use ferrule_backends::{
    Backend, Dataplane, IpvsOptions, ModeOptions, SyncOutcome, SyncReport, Trigger, UserspaceOptions, backend,
};
use ferrule_kernel::iptables::{AccessPolicy, Variant};
use ferrule_kernel::sys::enter_new_network_namespace;
use ferrule_model::{IpFamily, PerFamily};
use ferrule_plan::{FamilyPlan, LoopbackNodePorts, NodePortScope, PlanDelta, ProxyMode};
use ferrule_testkit::World;
use ferrule_testkit::netns::{NetSpec, NetWorld, or_skip};

/// A proxy mode, or a variant of one, and what its tests differ in.
pub struct Mode {
    pub kind: ProxyMode,
    /// The variant of iptables and how its rules are written, where the mode has a choice.
    pub variant: Option<(Variant, AccessPolicy)>,
    /// The programs that must be installed.
    pub programs: &'static [&'static str],
    /// A folder of `stories/`, and how many of its packets must have been sent at least.
    pub stories: &'static str,
    pub min_packets: usize,
    /// How many random worlds are tried, and from where on.
    pub random_worlds: usize,
    pub seed: u8,
    /// The command that shows everything the mode has in the kernel.
    pub listing: &'static [&'static str],
    pub damage: Damage,
    /// Whether NodePorts on loopback addresses are relayed beside the rules.
    pub relays_localhost: bool,
}

/// Something that another program can do to the rules of [`FACTS`].
pub struct Damage {
    pub command: &'static [&'static str],
    /// The diff afterwards, line by line.
    pub diff: &'static [&'static str],
}

pub const NFTABLES: Mode = Mode {
    kind: ProxyMode::Nftables,
    variant: None,
    programs: &["nft"],
    stories: "packets-nftables",
    min_packets: 110,
    random_worlds: 300,
    seed: 11,
    listing: &["nft", "-s", "list", "ruleset"],
    damage: Damage {
        command: &["nft", "delete", "element", "ip", "kube-proxy", "services", "{ 10.96.0.1 . tcp . 80 }"],
        diff: &["ip add element services 10.96.0.1 . tcp . 80 : 0x70000001"],
    },
    relays_localhost: false,
};

/// With NodePorts on localhost.
pub const NFTABLES_LOCALHOST: Mode = Mode {
    stories: "loopback",
    min_packets: 10,
    random_worlds: 100,
    seed: 17,
    relays_localhost: true,
    ..NFTABLES
};

pub const IPTABLES_NETLINK: Mode = Mode {
    kind: ProxyMode::Iptables,
    variant: Some((Variant::Nft, AccessPolicy::NetlinkFirst)),
    programs: &["iptables-nft", "nft"],
    stories: "packets-iptables",
    min_packets: 80,
    random_worlds: 150,
    seed: 12,
    listing: &["nft", "-s", "list", "ruleset"],
    damage: Damage { command: &["iptables-nft", "-t", "nat", "-F", "KUBE-MARK-MASQ"], diff: MARK_RULE },
    relays_localhost: false,
};

pub const IPTABLES_NFT: Mode =
    Mode { variant: Some((Variant::Nft, AccessPolicy::CommandsOnly)), seed: 14, ..IPTABLES_NETLINK };

pub const IPTABLES_LEGACY: Mode = Mode {
    variant: Some((Variant::Legacy, AccessPolicy::CommandsOnly)),
    programs: &["iptables-legacy"],
    seed: 13,
    listing: &["iptables-legacy-save"],
    damage: Damage { command: &["iptables-legacy", "-t", "nat", "-F", "KUBE-MARK-MASQ"], diff: MARK_RULE },
    ..IPTABLES_NETLINK
};

pub const IPVS: Mode = Mode {
    kind: ProxyMode::Ipvs,
    variant: None,
    programs: &["iptables-nft", "ipset", "ipvsadm"],
    stories: "packets-ipvs",
    min_packets: 60,
    random_worlds: 100,
    seed: 15,
    listing: &[
        "sh",
        "-c",
        "ipvsadm -Sn | sort; ipset save | sort; iptables-nft-save; ip6tables-nft-save; ip -o address show",
    ],
    damage: Damage {
        command: &["ipvsadm", "-D", "-t", "10.96.0.1:80"],
        diff: &["ipvsadm -A -t 10.96.0.1:80 -s rr", "ipvsadm -a -t 10.96.0.1:80 -r 10.244.1.1:8080 -m -w 1"],
    },
    relays_localhost: false,
};

/// With NodePorts on localhost.
pub const IPVS_LOCALHOST: Mode =
    Mode { stories: "loopback-ipvs", min_packets: 20, seed: 18, relays_localhost: true, ..IPVS };

pub const USERSPACE: Mode = Mode {
    kind: ProxyMode::Userspace,
    variant: None,
    programs: &["iptables-nft", "nft"],
    stories: "packets-userspace",
    min_packets: 80,
    random_worlds: 100,
    seed: 16,
    listing: &["nft", "-s", "list", "ruleset"],
    damage: Damage { command: &["iptables-nft", "-t", "nat", "-F", "KUBE-PORTALS-HOST"], diff: &[] },
    relays_localhost: false,
};

const MARK_RULE: &[&str] =
    &["*nat", ":KUBE-MARK-MASQ - [0:0]", "-A KUBE-MARK-MASQ -j MARK --or-mark 0x00004000", "COMMIT"];

/// Two Services in both families, one of them with a NodePort.
pub const FACTS: &str = "service one NodePort clusterIP 10.96.0.1,fd96::1 port 80→8080 nodePort 30080
    endpoint one 10.244.1.1 node a
    endpoint one fd44::1 node a
    service two clusterIP 10.96.0.2,fd96::2 port 80→8080
    endpoint two 10.244.1.2 node a
    endpoint two fd44::2 node a";

/// Touches everything: a Service comes, one goes, an endpoint comes.
pub const CHANGE: &str = "gone service two
    service three clusterIP 10.96.0.3,fd96::3 port 80→8080
    endpoint three 10.244.1.3 node a
    endpoint three fd44::3 node a
    endpoint one 10.244.1.9 node a
    endpoint one fd44::9 node a";

impl Mode {
    /// Whether it can be tested here. With `CI=true` it must be possible.
    pub fn is_testable(&self) -> bool {
        if self.kind == ProxyMode::Ipvs && !has_ipvs() {
            return false;
        }
        let is_missing = |program: &&&str| Command::new(program).arg("-V").output().is_err();
        let missing = self.programs.iter().find(is_missing);
        let is_ci = env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(missing.is_none() || !is_ci, "this test needs {missing:?}");
        if let Some(missing) = missing {
            println!("skipped: needs {missing}");
        }
        missing.is_none() && or_skip()
    }

    /// Runs a test in a network namespace of its own, if the mode can be tested.
    pub fn in_namespace(&'static self, test: impl FnOnce() + Send) {
        if self.is_testable() {
            let entered = || {
                enter_new_network_namespace().map(|()| {
                    // Without a route IPVS takes no real server.
                    run(&["ip", "link", "set", "lo", "up"]);
                    test();
                })
            };
            let ran = thread::scope(|scope| scope.spawn(entered).join());
            ran.unwrap_or_else(|panic| std::panic::resume_unwind(panic)).expect("a network namespace");
        }
    }

    pub fn backend(&self) -> Box<dyn Backend> {
        match self.variant {
            Some((variant, policy)) => {
                let mut backend = Iptables::with_variant(variant);
                backend.set_iptables_access(policy);
                Box::new(backend)
            }
            None => backend(self.kind),
        }
    }

    /// A world of a node and these facts, planned for this mode.
    pub fn world(&self, facts: &str) -> World {
        let mut world = World::default();
        let settings = format!(
            "mode {}\ndetectLocal ClusterCIDR 10.244.0.0/16,fd44::/32\nnodePortAddresses primary",
            self.kind.name()
        );
        world.run_proxy(&settings).expect("settings");
        world.say("node a addresses 192.0.2.1,fd00::1 podCIDR 10.244.1.0/24").expect("a node");
        world.say(facts).expect("facts");
        world.settle();
        world
    }

    /// Starts the mode as the program does, for the families of a world. Belongs into the node's namespace.
    pub fn start(&self, world: &World) -> PerFamily<Box<dyn Dataplane>> {
        let mut backend = self.backend();
        let probe = backend.probe();
        let options = self.options(world);
        backend.prepare_host(&options).expect("a host that is prepared");
        let families: Vec<IpFamily> = world.plan.families.iter().map(|(family, _)| family).collect();
        for family in &families {
            let probed = probe.families.get(*family).expect("a family that was probed");
            assert!(probed.is_ok(), "{family} cannot be served: {probed:?}");
        }
        backend.open(&families, &options).expect("dataplanes").dataplanes
    }

    /// The same for one family.
    pub fn start_family(&self, world: &World, family: IpFamily) -> Box<dyn Dataplane> {
        let mut dataplanes = self.start(world);
        match family {
            IpFamily::V4 => dataplanes.v4.take(),
            IpFamily::V6 => dataplanes.v6.take(),
        }
        .expect("a dataplane")
    }

    /// Brings the node of a network in line with a world, in every family, and makes sure that another start has nothing to do.
    /// A mode that relays serves as long as the result lives; the rules of others stay without it.
    #[must_use]
    pub fn program(&self, net: &NetWorld, world: &World) -> PerFamily<Box<dyn Dataplane>> {
        let started = || {
            let mut dataplanes = self.start(world);
            sync_all(&mut dataplanes, world);
            let serves_itself = self.kind == ProxyMode::Userspace || self.relays_localhost;
            if !serves_itself {
                dataplanes = self.start(world);
            }
            (sync_all(&mut dataplanes, world), dataplanes)
        };
        let (again, dataplanes) = net.node().run(started).expect("the node's namespace");
        for report in again {
            assert_eq!((report.outcome, report.commits), (SyncOutcome::UpToDate, 0), "{report:?}");
        }
        dataplanes
    }

    /// What shadow mode says of a node that serves a world in this mode.
    pub fn shadow_differences(&self, net: &NetWorld, world: &World) -> Vec<String> {
        let looked = || {
            let mut backend = self.backend();
            backend.probe();
            let Some(reader) = backend.shadow_reader(&self.options(world)) else { return Vec::new() };
            let families = world.plan.families.iter();
            families.flat_map(|(_, plan)| reader.diff(plan).expect("a comparison").lines).collect()
        };
        net.node().run(looked).expect("the node's namespace")
    }

    /// The options by which the program would run it in such a world.
    pub fn options(&self, world: &World) -> ModeOptions {
        ModeOptions { relayed_localhost_node_ports: self.relays_localhost, ..options(world) }
    }

    /// Hosts to send packets between.
    pub fn network(&self, spec: NetSpec) -> NetWorld {
        let net = NetWorld::build(spec).map_err(|error| error.with_sources()).expect("a world");
        if self.kind == ProxyMode::Userspace { net.relaying() } else { net }
    }

    /// Has another program do something to the rules.
    pub fn damage(&self) {
        run(self.damage.command);
    }

    /// Everything the mode has in the kernel, as its tool shows it.
    pub fn listing(&self) -> String {
        let text = run(self.listing);
        // Comments have the time in them, and chains the packets they counted.
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.split(" [").next().unwrap_or(line).to_owned() + "\n").collect()
    }
}

/// Not every kernel has IPVS. The virtual machine of `scripts/vm` has, and says so.
fn has_ipvs() -> bool {
    let has_ipvs = matches!(ferrule_kernel::ipvs::Ipvs::open_loaded(), Ok(Some(_)));
    assert!(has_ipvs || env::var_os("FERRULE_TEST_IPVS").is_none(), "this kernel should have IPVS");
    if !has_ipvs {
        println!("skipped: this kernel has no IPVS; 'make vm' runs it on one that has");
    }
    has_ipvs
}

/// The options by which the program would plan such a world.
pub fn options(world: &World) -> ModeOptions {
    let serves_loopback = |plan: &FamilyPlan| {
        let has_addresses = match &plan.node.loopback_addresses {
            NodePortScope::All => true,
            NodePortScope::Only(addresses) => !addresses.is_empty(),
        };
        has_addresses && plan.node.loopback_node_ports == LoopbackNodePorts::InKernel
    };
    ModeOptions {
        sync_period: Duration::from_secs(30),
        localhost_node_ports: world.family(IpFamily::V4).is_some_and(serves_loopback),
        relayed_localhost_node_ports: false,
        node_port_blocks: Vec::new(),
        ipvs: IpvsOptions::default(),
        userspace: UserspaceOptions::default(),
    }
}

/// Makes sure of every family's rules.
fn sync_all(dataplanes: &mut PerFamily<Box<dyn Dataplane>>, world: &World) -> Vec<SyncReport> {
    let mut reports = Vec::new();
    for family in IpFamily::BOTH {
        let dataplane = match family {
            IpFamily::V4 => dataplanes.v4.as_mut(),
            IpFamily::V6 => dataplanes.v6.as_mut(),
        };
        if let (Some(dataplane), Some(plan)) = (dataplane, world.family(family)) {
            reports.push(sync(&mut **dataplane, plan, Trigger::verify()));
        }
    }
    reports
}

/// What waits longer waits for connections to end, which is no business of these tests.
const LONG_WAIT: Duration = Duration::from_secs(30);

/// A sync that succeeds, with all that it deferred for a moment.
pub fn sync(dataplane: &mut dyn Dataplane, plan: &FamilyPlan, trigger: Trigger<'_>) -> SyncReport {
    let report = dataplane.sync(plan, trigger).expect("a sync");
    let mut deferred = report.deferred;
    while deferred.is_some_and(|deferred| deferred.after < LONG_WAIT) {
        deferred = dataplane.run_deferred().expect("what was deferred").deferred;
    }
    report
}

/// Changes the world; what that changes in a family's plan.
pub fn say(world: &mut World, facts: &str, family: IpFamily) -> PlanDelta {
    let step = world.then(facts).expect("facts");
    step.deltas.get(family).cloned().unwrap_or_default()
}

fn run(command: &[&str]) -> String {
    let (program, arguments) = command.split_first().expect("a program");
    let output = Command::new(program).args(arguments).output().expect("the program");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
