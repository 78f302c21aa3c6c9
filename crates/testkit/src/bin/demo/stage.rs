//! The setting of the tour: namespaces, the folder of manifests, the program.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ferrule_kernel::nft::{Family, NftClient, NftNotification, NftNotifications, NftWatch, Transaction};
use ferrule_kernel::port::{NftReader as _, NftTables as _};
use ferrule_model::Protocol::Tcp;
use ferrule_plan::Packet;
use ferrule_testkit::Program;
use ferrule_testkit::netns::{NetSpec, NetWorld, Seen};

pub const NODE: &str = "192.0.2.10";
pub const PODS: [&str; 3] = ["10.244.1.11", "10.244.1.12", "10.244.1.13"];
pub const ASKING_POD: &str = "10.244.1.100";
pub const CLIENT: &str = "203.0.113.5";
const TIMEOUT: Duration = Duration::from_secs(10);

/// Dropping it removes everything.
pub struct Stage {
    net: NetWorld,
    folder: tempfile::TempDir,
    ferrule: PathBuf,
}

/// A destination of connections.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub address: &'static str,
    pub port: u16,
}

impl Target {
    fn packet(self, from: &str) -> Packet {
        Packet { from: ip(from), interface: None, to: ip(self.address), port: Some((Tcp, self.port)) }
    }
}

/// The outcomes of many connections: how many each pod answered, and how many failed.
#[derive(Debug, Default)]
pub struct Counts {
    pub answered: BTreeMap<IpAddr, usize>,
    pub sources: BTreeMap<IpAddr, usize>,
    pub lost: usize,
}

impl Counts {
    /// As in `10.244.1.11: 98, 10.244.1.12: 104`.
    pub fn shown(&self) -> String {
        let mut parts: Vec<String> =
            self.answered.iter().map(|(pod, count)| format!("{pod}: {count}")).collect();
        if self.lost > 0 {
            parts.push(format!("lost: {}", self.lost));
        }
        parts.join(", ")
    }
}

impl Stage {
    /// Builds the hosts, and copies the example manifests to the folder.
    pub fn set(ferrule: &Path) -> Result<Self, String> {
        let mut spec = NetSpec::node([ip(NODE)]).pod(ip(ASKING_POD), &[]).beyond(ip(CLIENT), &[]);
        for pod in PODS {
            spec = spec.pod(ip(pod), &[(Tcp, 8080)]);
        }
        let net = NetWorld::build(spec).map_err(|error| error.with_sources())?;
        let folder = tempfile::tempdir().map_err(|error| format!("making a folder: {error}"))?;
        let stage = Self { net, folder, ferrule: ferrule.to_owned() };
        for name in ["node.yaml", "web.yaml", "cart.yaml"] {
            stage.write(name, &example(name)?)?;
        }
        Ok(stage)
    }

    /// Writes a manifest in one step, as editors do.
    pub fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let failed = |error| format!("writing {name}: {error}");
        let elsewhere = self.folder.path().join(format!(".{name}.new"));
        fs::write(&elsewhere, text).map_err(failed)?;
        fs::rename(&elsewhere, self.folder.path().join(name)).map_err(failed)
    }

    /// Starts Ferrule on the node.
    pub fn start(&self) -> Result<Program, String> {
        let folder = self.folder.path().to_string_lossy().into_owned();
        let arguments =
            ["--manifests", &folder, "--hostname-override=node-a", "--cluster-cidr=10.244.0.0/16", "-v=2"];
        Program::start(self.net.node(), &self.ferrule, &arguments).map_err(|error| error.with_sources())
    }

    /// Many connections at once.
    pub fn connect(&self, from: &str, to: Target, times: usize) -> Result<Counts, String> {
        let packet = to.packet(from);
        let seen = self.net.probe_many(&packet, times, TIMEOUT).map_err(|error| error.with_sources())?;
        let mut counts = Counts::default();
        for (seen, times) in seen {
            match seen {
                Seen::Answered { by, source_seen } => {
                    *counts.answered.entry(by.ip()).or_default() += times;
                    *counts.sources.entry(source_seen).or_default() += times;
                }
                _ => counts.lost += times,
            }
        }
        Ok(counts)
    }

    /// Connects until the outcome is the wanted one; returns how long that took.
    pub fn until(&self, to: Target, is_wanted: impl Fn(&Counts) -> bool) -> Result<Duration, String> {
        let began = Instant::now();
        while began.elapsed() < TIMEOUT {
            if is_wanted(&self.connect_briefly(to)?) {
                return Ok(began.elapsed());
            }
        }
        Err(format!("no success with {}:{} after {}s", to.address, to.port, TIMEOUT.as_secs()))
    }

    fn connect_briefly(&self, to: Target) -> Result<Counts, String> {
        let packet = to.packet(ASKING_POD);
        let seen =
            self.net.probe(&packet, Duration::from_millis(50)).map_err(|error| error.with_sources())?;
        let mut counts = Counts::default();
        match seen {
            Seen::Answered { by, .. } => drop(counts.answered.insert(by.ip(), 1)),
            _ => counts.lost = 1,
        }
        Ok(counts)
    }

    /// Does what `nft flush ruleset` does to Ferrule's tables.
    pub fn flush(&self) -> Result<(), String> {
        let flushed = self.net.node().run(|| {
            for family in [Family::Ip, Family::Ip6] {
                let mut client = NftClient::open(family).map_err(|error| error.to_string())?;
                let mut transaction = Transaction::new();
                transaction.delete_table();
                if client.table().map_err(|error| error.to_string())?.is_some() {
                    client.commit(&transaction).map_err(|error| error.to_string())?;
                }
            }
            Ok(())
        });
        flushed.map_err(|error| error.with_sources())?
    }

    /// Subscribes to changes of the kernel's tables.
    pub fn listen(&self) -> Result<NftWatch, String> {
        let opened = self.net.node().run(NftWatch::open).map_err(|error| error.with_sources())?;
        opened.map_err(|error| error.to_string())
    }
}

/// The notifications since the subscription.
pub fn notifications(watch: &mut NftWatch) -> Result<Vec<NftNotification>, String> {
    match watch.read().map_err(|error| error.to_string())? {
        NftNotifications::Received(events) => Ok(events),
        NftNotifications::Lost(_) => Err("more happened than could be listened to".to_owned()),
    }
}

/// A manifest from the examples.
pub fn example(name: &str) -> Result<String, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = here.ancestors().nth(2).unwrap_or(here).join("examples/standalone").join(name);
    fs::read_to_string(&path).map_err(|error| format!("reading {}: {error}", path.display()))
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap_or(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED))
}
