//! One proxy on a node of its own.

use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use ferrule_testkit::Program;
use ferrule_testkit::api_server::{User, program};
use ferrule_testkit::netns::{Namespace, NetWorld};

use crate::cluster::{Cluster, NODE, POD, cluster_ip, world};
use crate::prober::{Times, time_until};

/// kube-proxy's time limit for a start.
const PATIENCE: Duration = Duration::from_mins(4);
/// A start takes its time: who asks must not keep the cores busy.
const TIMES: Times = Times { every: Duration::from_millis(5), patience: PATIENCE };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make {
    KubeProxy,
    Ferrule,
}

impl fmt::Display for Make {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KubeProxy => "kube-proxy",
            Self::Ferrule => "Ferrule",
        })
    }
}

impl Make {
    fn program(self) -> PathBuf {
        match self {
            Self::KubeProxy => program("kube-proxy"),
            Self::Ferrule => env!("CARGO_BIN_EXE_ferrule-under-test").into(),
        }
    }
}

/// The node of a proxy.
pub struct Site<'a> {
    pub cluster: &'a Cluster,
    pub net: NetWorld,
    make: Make,
}

impl<'a> Site<'a> {
    pub fn new(cluster: &'a Cluster, make: Make) -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let net = world();
        let address = Ipv4Addr::new(172, 31, 90, NEXT.fetch_add(1, Ordering::Relaxed));
        cluster.server.join(net.node(), address).expect("a cable to the API server");
        Self { cluster, net, make }
    }

    pub fn start(&self) -> Program {
        let kubeconfig = self.cluster.server.kubeconfig(User::KubeProxy).expect("a kubeconfig");
        let arguments = [
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--hostname-override={NODE}"),
            "--proxy-mode=nftables".into(),
            "--cluster-cidr=10.240.0.0/12".into(),
            // A namespace may not write these.
            "--conntrack-max-per-core=0".into(),
            "--conntrack-tcp-timeout-established=0".into(),
            "--conntrack-tcp-timeout-close-wait=0".into(),
        ];
        Program::start(self.net.node(), &self.make.program(), &arguments).expect("it starts")
    }

    /// The pod that connects.
    pub fn pod(&self) -> &Namespace {
        self.net.namespace_of(POD.into()).expect("a pod")
    }

    /// Until the first, the middle and the last Service answer, by number and by name: rules may be written in the order of either.
    /// None if that takes too long.
    pub fn time_to_programmed(&self, began: Instant) -> Option<Duration> {
        let last = self.cluster.size.services - 1;
        let last_by_name = (0..=last).max_by_key(ToString::to_string).unwrap_or_default();
        let times = [last_by_name, last, last / 2, 0]
            .map(|nth| time_until(self.pod(), cluster_ip(nth), began, TIMES, |_| true));
        times.into_iter().try_fold(Duration::ZERO, |longest, time| Some(longest.max(time?)))
    }

    /// Waits until its first sync is over, by its own word.
    pub fn wait_for_first_sync(&self) {
        let began = Instant::now();
        let is_over = || {
            let metrics = self.net.node().page(10249, "/metrics").unwrap_or_default();
            let name = "kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=\"IPv4\"}";
            let line = metrics.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse::<f64>().ok()).is_some_and(|time| time > 0.0)
        };
        while !is_over() && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
