//! Somebody else breaks what Ferrule wrote.

use std::time::{Duration, Instant};

use crate::alone;
use crate::node::{Node, PAUSE, sleep};

/// What is said of each repair.
const REPAIRED: &str = "Another program changed our rules, repaired";
/// How often everything is looked at, as the test sets it, and how much longer a healing may take where the processor is slow.
const PERIOD: &str = "--ipvs-sync-period=2s";
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn what_others_break_is_healed_and_told_once() {
    let Some(_turn) = alone() else { return };
    let node = Node::new("drifts");
    let (ferrule, _) = node.run_ferrule(&[PERIOD]);
    node.wait_until_served(&ferrule);
    let (before, rules) = (node.seen(), node.rules());
    let vip = format!("{}/32", node.service().ip());
    let breaks: [(&str, &[&str], &str); 5] = [
        ("ip", &["link", "del", "kube-ipvs0"], "kube-ipvs0 removed"),
        ("ip", &["address", "del", &vip, "dev", "kube-ipvs0"], "of kube-ipvs0 removed"),
        ("iptables", &["-t", "nat", "-F", "KUBE-SERVICES"], "KUBE-SERVICES"),
        ("ipset", &["flush", "KUBE-CLUSTER-IP"], "entry removed: "),
        ("ipvsadm", &["-C"], "virtual server removed: "),
    ];
    for (program, arguments, named) in breaks {
        let (said, broken) = (ferrule.said(), Instant::now());
        node.command(program, arguments);
        let log = || ferrule.log().split_off(said).join("\n");
        while node.seen() != before || node.rules() != rules {
            assert!(
                broken.elapsed() < PATIENCE,
                "{program} {arguments:?}:\n{:?}\ninstead of\n{before:?}\n{}",
                node.seen(),
                log()
            );
            std::thread::park_timeout(PAUSE);
        }
        println!("{program} {}: healed within {:?}", arguments.join(" "), broken.elapsed());
        node.wait_until_served(&ferrule);
        // It is seen to be whole a few times more.
        sleep(Duration::from_secs(3));
        let repairs: Vec<String> =
            ferrule.log().split_off(said).into_iter().filter(|line| line.contains(REPAIRED)).collect();
        println!("  {}", repairs.join("\n  "));
        assert_eq!(repairs.len(), 1, "{program} {arguments:?}: {}", log());
        assert!(repairs[0].contains(named), "{program} {arguments:?}: {}", repairs[0]);
    }
}
