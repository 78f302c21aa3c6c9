//! A node that passes from proxy to proxy while clients connect to its Service.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ferrule_testkit::{Program, api_server, netns};

use crate::clients::Clients;
use crate::node::{Node, PATIENCE, Proxy};

/// Clients of several tests at once would be in each other's way.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
/// How long clients connect before a change, while nobody runs, and after the change.
const BEFORE: Duration = Duration::from_secs(1);
const BETWEEN: Duration = Duration::from_millis(200);
const AFTER: Duration = Duration::from_secs(2);

/// The node, its clients, and the proxy that runs.
pub struct Tour {
    pub node: Node,
    clients: Clients,
    running: Option<Program>,
    hand_overs: usize,
    _turn: MutexGuard<'static, ()>,
}

impl Tour {
    /// A node that this proxy serves first; `None` where something is lacking.
    pub fn begin(name: &'static str, first: Proxy) -> Option<Self> {
        let has_iptables = std::process::Command::new("iptables-save").arg("-V").output().is_ok();
        assert!(has_iptables || std::env::var("CI").is_err(), "this test needs the iptables programs");
        if !has_iptables || !netns::or_skip() || !api_server::or_skip() {
            return None;
        }
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let node = Node::new(name);
        let running = Some(node.run(first));
        node.wait_until_served();
        let clients = Clients::connecting_to(&node);
        clients.go_on(BEFORE);
        Some(Self { node, clients, running, hand_overs: 0, _turn: turn })
    }

    /// Kills the proxy that runs and starts another; what that one said of its first sync. Nothing of another mode is left.
    pub fn hand_over_to(&mut self, next: Proxy) -> String {
        if let Some(old) = self.running.take() {
            old.kill().expect("it is killed");
        }
        self.clients.go_on(BETWEEN);
        let new = self.node.run(next);
        let synced = first_sync(&new, next);
        self.wait_until_alone(next.mode());
        self.clients.go_on(AFTER);
        self.running = Some(new);
        self.hand_overs += 1;
        synced
    }

    /// Nobody noticed anything. The node, where nobody runs any more.
    pub fn end(self) -> Node {
        let Self { node, clients, running, hand_overs, _turn } = self;
        let log = running.as_ref().map(|running| running.log().join("\n")).unwrap_or_default();
        let rate = clients.rate();
        let (tried, failed) = clients.stop();
        // How fast they are depends on what else the machine does; how many there are does not.
        println!("{tried} connects in {hand_overs} hand-overs, {rate:.0} a second");
        assert!(tried > hand_overs * 2_000, "only {tried} connects were tried");
        assert_eq!(failed, Vec::<String>::new(), "of {tried}\n{log}");
        if let Some(running) = running {
            running.kill().expect("it is killed");
        }
        node
    }

    fn wait_until_alone(&self, mode: &str) {
        let give_up = Instant::now() + PATIENCE;
        let others = || match mode {
            "nftables" => self.node.rules_in_iptables().len(),
            _ => self.node.tables_of_proxies().len(),
        };
        while others() > 0 {
            assert!(Instant::now() < give_up, "the other mode's rules stay");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }
}

/// Waits until a proxy has written its rules, without a failure.
fn first_sync(proxy: &Program, is: Proxy) -> String {
    let line = match is {
        Proxy::KubeProxy(_) => "SyncProxyRules complete",
        Proxy::Ferrule(_) => "family=\"IPv4\" written=",
    };
    let said = proxy.wait_for(line, 0, PATIENCE);
    let log = proxy.log().join("\n");
    assert!(said.is_some() && !log.to_lowercase().contains("sync failed"), "{log}");
    said.unwrap_or_default()
}
