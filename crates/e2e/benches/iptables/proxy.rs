//! Runs a proxy in iptables mode on a node of its own, and measures it by the metrics both makes have.

use std::net::Ipv4Addr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use ferrule_testkit::Program;
use ferrule_testkit::api_server::{User, program};
use ferrule_testkit::netns::Namespace;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::{BenchCluster, NODE, SLICES, endpoints};
use crate::lock::LockWatch;

/// The `nft` variant takes kube-proxy's text of 50,000 endpoints several minutes.
const PATIENCE: Duration = Duration::from_mins(10);
const STEP: Duration = Duration::from_millis(5);
/// How many changes are timed, and the pause before each: kube-proxy's shortest between two syncs, and some more.
const CHANGES: usize = 5;
const PAUSE: Duration = Duration::from_millis(1500);

/// How many Services come right after the start, and how far apart: together for longer than two of the periods of 30 seconds in
/// which proxies look after their rules.
const NEW_SERVICES: u8 = 8;
const NEW_SERVICE_PAUSE: Duration = Duration::from_secs(9);

/// Every change is to an endpoint that was not there before.
static VERSION: AtomicU8 = AtomicU8::new(1);

#[derive(Clone, Copy)]
pub enum Make {
    Ferrule,
    KubeProxy,
}

#[derive(Clone, Copy)]
pub enum Variant {
    Nft,
    Legacy,
}

impl Variant {
    pub fn name(self) -> &'static str {
        match self {
            Self::Nft => "nft",
            Self::Legacy => "legacy",
        }
    }
}

/// What was measured. The lock is the legacy variant's.
pub struct Found {
    pub start: Duration,
    pub first_sync: Duration,
    pub lock_at_start: Option<Duration>,
    pub change: Duration,
    pub latency: Duration,
    pub lock_for_change: Option<Duration>,
    /// The slowest of some Services that come right after the start: from the API server to the rules.
    pub slowest_new_service: Duration,
    /// Repairs of rules that nobody touched, where somebody counts them.
    pub false_alarms: Option<u64>,
    /// Resident memory in MiB after the changes, and at most so far.
    pub resident: (f64, f64),
    /// From the end of the damage to the repair, where somebody counts repairs: one chain emptied, table nat emptied.
    pub healed: Option<[Duration; 2]>,
}

/// Measures one make; `None` if its first sync does not end.
pub fn measure(cluster: &BenchCluster, make: Make, variant: Variant) -> Option<Found> {
    let proxy = Running::start(cluster, make, variant);
    let start = proxy.wait_for_sync(0, proxy.began)?;
    let (first_syncs, first_sum) = proxy.syncs();
    let lock_at_start = proxy.lock.as_ref().map(LockWatch::held);
    let slowest_new_service = proxy.new_services(cluster)?;
    let mut changes = Vec::new();
    for version in 1..=CHANGES {
        std::thread::sleep(PAUSE);
        changes.push(proxy.change(cluster, version)?);
    }
    let median = |of: &dyn Fn(&[Duration; 3]) -> Duration| {
        let mut times: Vec<Duration> = changes.iter().map(of).collect();
        times.sort_unstable();
        times[CHANGES / 2]
    };
    let false_alarms = proxy.repairs().or(matches!(make, Make::Ferrule).then_some(0));
    let resident = proxy.program.resident();
    let healed = matches!(make, Make::Ferrule).then(|| {
        [&["-t", "nat", "-F", "KUBE-MARK-MASQ"][..], &["-t", "nat", "-F"]]
            .map(|damage| proxy.healed(variant, damage))
    });
    Some(Found {
        start,
        first_sync: first_sum / u32::try_from(first_syncs).unwrap_or(1).max(1),
        lock_at_start,
        change: median(&|[sync, _, _]| *sync),
        latency: median(&|[_, latency, _]| *latency),
        lock_for_change: proxy.lock.as_ref().map(|_| median(&|[_, _, held]| *held)),
        slowest_new_service,
        false_alarms,
        resident,
        healed,
    })
}

/// A proxy on a node of its own.
struct Running {
    node: Namespace,
    program: Program,
    began: Instant,
    lock: Option<LockWatch>,
    /// The programs of the variant under the names that kube-proxy runs, and the lock.
    _folder: TempDir,
}

impl Running {
    fn start(cluster: &BenchCluster, make: Make, variant: Variant) -> Self {
        static NODES: AtomicU8 = AtomicU8::new(2);
        let node = Namespace::new("a node").expect("a namespace");
        let address = Ipv4Addr::new(172, 31, 9, NODES.fetch_add(1, Ordering::Relaxed));
        cluster.server.join(&node, address).expect("a cable");
        let hint = format!("iptables-{}", variant.name());
        node.feed(&hint, &["-t", "mangle", "-N", "KUBE-IPTABLES-HINT"], "").expect("a hint");
        let folder = programs(variant);
        let lock = folder.path().join("lock");
        let path = std::env::var("PATH").unwrap_or_default();
        let kubeconfig = cluster.server.kubeconfig(User::KubeProxy).expect("a kubeconfig");
        let arguments = [
            format!("PATH={}:{path}", folder.path().display()),
            format!("XTABLES_LOCKFILE={}", lock.display()),
            executable(make).display().to_string(),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--hostname-override={NODE}"),
            "--proxy-mode=iptables".into(),
            "--cluster-cidr=10.244.0.0/16".into(),
            // A namespace may not write these settings, and kube-proxy dies of that.
            "--conntrack-max-per-core=0".into(),
            "--conntrack-tcp-timeout-established=0".into(),
            "--conntrack-tcp-timeout-close-wait=0".into(),
        ];
        let watch = matches!(variant, Variant::Legacy).then(|| LockWatch::of(&lock));
        let began = Instant::now();
        let program = Program::start(&node, Path::new("/usr/bin/env"), &arguments).expect("it starts");
        Self { node, program, began, lock: watch, _folder: folder }
    }

    /// How many syncs there were, and how long they took together.
    fn syncs(&self) -> (u64, Duration) {
        let of = |what: &str| format!("kubeproxy_sync_proxy_rules_duration_seconds_{what}");
        let sum = Duration::from_secs_f64(self.metric(&of("sum")).unwrap_or(0.0));
        (self.count(&of("count")).unwrap_or(0), sum)
    }

    /// What a series says of IPv4.
    fn metric(&self, name: &str) -> Option<f64> {
        let (page, series) = (self.node.page(10249, "/metrics")?, format!("{name}{{ip_family=\"IPv4\"}} "));
        page.lines().find_map(|line| line.strip_prefix(&series)?.parse().ok())
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    fn count(&self, name: &str) -> Option<u64> {
        self.metric(name).map(|count| count as u64)
    }

    fn repairs(&self) -> Option<u64> {
        self.count("ferrule_drift_repairs_total")
    }

    /// How long after some damage it is repaired.
    fn healed(&self, variant: Variant, damage: &[&str]) -> Duration {
        let before = self.repairs().unwrap_or(0);
        self.node.feed(&format!("iptables-{}", variant.name()), damage, "").expect("some damage");
        let began = Instant::now();
        while self.repairs().unwrap_or(0) == before && began.elapsed() < PATIENCE {
            std::thread::sleep(STEP);
        }
        began.elapsed()
    }

    /// Creates Services right after the start, for longer than rules are left unchecked; how long the slowest took to be served.
    fn new_services(&self, cluster: &BenchCluster) -> Option<Duration> {
        let mut slowest = Duration::ZERO;
        for nth in 0..NEW_SERVICES {
            let done = || self.count("kubeproxy_network_programming_duration_seconds_count").unwrap_or(0);
            let (before, objects, began) = (done(), new_service(nth), Instant::now());
            for (path, object) in &objects {
                cluster.server.create(path, object).expect("an object");
            }
            while done() <= before {
                if began.elapsed() > PATIENCE {
                    return None;
                }
                std::thread::sleep(STEP);
            }
            slowest = slowest.max(began.elapsed());
            std::thread::sleep(NEW_SERVICE_PAUSE);
        }
        for (path, object) in (0..NEW_SERVICES).flat_map(new_service) {
            let name = object["metadata"]["name"].as_str().expect("a name");
            cluster.server.delete(&format!("{path}/{name}")).expect("an object goes");
        }
        self.wait_until_quiet();
        Some(slowest)
    }

    /// Waits until no sync has come for a while, so that the next one is somebody's own.
    fn wait_until_quiet(&self) {
        let (mut syncs, began) = (self.syncs().0, Instant::now());
        while began.elapsed() < PATIENCE {
            std::thread::sleep(2 * PAUSE);
            if std::mem::replace(&mut syncs, self.syncs().0) == syncs {
                return;
            }
        }
    }

    /// Waits until there were more syncs than so many; how long that is since a moment.
    fn wait_for_sync(&self, before: u64, since: Instant) -> Option<Duration> {
        while self.syncs().0 <= before {
            if since.elapsed() > PATIENCE {
                return None;
            }
            std::thread::sleep(STEP);
        }
        Some(since.elapsed())
    }

    /// Replaces an endpoint: how long the sync took, the whole way, and for how long the lock was held.
    fn change(&self, cluster: &BenchCluster, version: usize) -> Option<[Duration; 3]> {
        let held = || self.lock.as_ref().map(LockWatch::held).unwrap_or_default();
        let (nth, (count, sum), held_before) = (version * 7, self.syncs(), held());
        let slice = format!("{SLICES}/service-{nth}-a");
        let now = usize::from(VERSION.fetch_add(1, Ordering::Relaxed));
        let began = Instant::now();
        cluster.server.patch(&slice, &json!({ "endpoints": endpoints(nth, now) })).expect("a change");
        let latency = self.wait_for_sync(count, began)?;
        let (count_now, sum_now) = self.syncs();
        let syncs = u32::try_from(count_now - count).unwrap_or(1).max(1);
        Some([sum_now.saturating_sub(sum) / syncs, latency, held().saturating_sub(held_before)])
    }
}

/// A Service and its slice, which says when it was made, so that proxies count how long they took.
fn new_service(nth: u8) -> [(&'static str, Value); 2] {
    let name = format!("new-{nth}");
    let service = json!({
        "metadata": { "name": name },
        "spec": { "clusterIP": format!("10.98.255.{nth}"), "ports": [{ "name": "http", "port": 80 }] },
    });
    let slice = json!({
        "metadata": {
            "name": name,
            "labels": { "kubernetes.io/service-name": name },
            "annotations": { "endpoints.kubernetes.io/last-change-trigger-time": jiff::Timestamp::now().to_string() },
        },
        "addressType": "IPv4", "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
        "endpoints": [{ "addresses": [format!("10.246.0.{nth}")], "conditions": { "ready": true } }],
    });
    [("/api/v1/namespaces/default/services", service), (SLICES, slice)]
}

fn executable(make: Make) -> PathBuf {
    match make {
        Make::Ferrule => PathBuf::from(env!("CARGO_BIN_EXE_ferrule-under-test")),
        Make::KubeProxy => program("kube-proxy"),
    }
}

fn programs(variant: Variant) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let path = std::env::var_os("PATH").unwrap_or_default();
    for family in ["iptables", "ip6tables"] {
        for suffix in ["", "-save", "-restore"] {
            let program = format!("{family}-{}{suffix}", variant.name());
            let found = std::env::split_paths(&path).map(|at| at.join(&program)).find(|at| at.exists());
            let place = folder.path().join(format!("{family}{suffix}"));
            symlink(found.expect("the iptables programs"), place).expect("a link");
        }
    }
    std::fs::write(folder.path().join("lock"), "").expect("a lock");
    folder
}
