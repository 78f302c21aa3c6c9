//! iptables mode: what it counts, what it waits for, and how soon it notices a little damage.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use ferrule_kernel::accounting;
use ferrule_testkit::Program;

use crate::iptables::{MODE, ready, rules, run, serve, sorted};
use crate::stand::{BINARY, PATIENCE, PODS, Stand, is_answered_by, service, slice, until};

const LOOPBACK: &str = "kubeproxy_iptables_localhost_nodeports_accepted_packets_total";
const INVALID: &str = "kubeproxy_iptables_ct_state_invalid_dropped_packets_total";
const LOCK_WAIT: &str = "ferrule_iptables_lock_wait_seconds";

/// How long somebody holds the lock; a change is seen much sooner.
const HOLD: Duration = Duration::from_secs(1);

/// What a scrape says of a series, if it is there.
fn scraped(stand: &Stand, series: &str) -> Option<f64> {
    let page = stand.net.node().run(|| -> std::io::Result<String> {
        let mut stream = TcpStream::connect("127.0.0.1:10249")?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
        let mut page = String::new();
        stream.read_to_string(&mut page)?;
        Ok(page)
    });
    let page = page.expect("the node").expect("a page");
    let line =
        page.lines().find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Row: iptables J13
#[test]
fn what_rules_count_is_scraped() {
    let Some(stand) = ready() else { return };
    let has_counters = stand.net.node().run(|| accounting::ensure("ferrule-try").is_ok()).expect("the node");
    serve(&stand, &["--proxy-mode=nftables"]).terminate().expect("it ends");
    let _program = serve(&stand, &MODE);
    if !has_counters {
        assert_eq!((scraped(&stand, INVALID), scraped(&stand, LOOPBACK)), (None, None));
        return;
    }
    assert_eq!((scraped(&stand, INVALID), scraped(&stand, LOOPBACK)), (Some(0.0), Some(0.0)));
    assert!(is_answered_by(&stand.ask("127.0.0.1", "127.0.0.1", 30080), &PODS));
    // A scrape may be some milliseconds old.
    until(|| scraped(&stand, LOOPBACK).filter(|packets| (0.5..1.5).contains(packets)));
}

#[test]
fn other_modes_count_no_packets() {
    let Some(stand) = ready() else { return };
    let _program = serve(&stand, &["--proxy-mode=nftables"]);
    assert_eq!((scraped(&stand, INVALID), scraped(&stand, LOOPBACK)), (None, None));
}

#[test]
fn a_lock_that_somebody_holds_is_waited_for_and_told() {
    let Some(stand) = ready() else { return };
    run(&stand, "iptables-legacy", &["-t", "mangle", "-N", "KUBE-IPTABLES-HINT"]);
    let held = tempfile::NamedTempFile::new().expect("a lock of our own, in nobody else's way");
    let (lock, folder) =
        (format!("XTABLES_LOCKFILE={}", held.path().display()), stand.folder().to_string_lossy());
    let mut arguments =
        vec![lock.as_str(), BINARY, "--manifests", &folder, "--hostname-override=node-a", "-v=2"];
    arguments.extend(MODE);
    arguments.push("--cluster-cidr=10.244.0.0/16");
    let program = Program::start(stand.net.node(), Path::new("/usr/bin/env"), &arguments).expect("it starts");
    let synced = program.wait_for("family=\"IPv6\" written=", 0, PATIENCE);
    assert!(synced.is_some(), "{}", program.log().join("\n"));
    let waited = |what: &str| scraped(&stand, &format!("{LOCK_WAIT}_{what}{{ip_family=\"IPv4\"}}"));
    assert_eq!(waited("count"), Some(1.0));
    let before = waited("sum").expect("a sum");
    let somebody = File::open(held.path()).expect("the lock");
    somebody.lock().expect("it is free");
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS[..1])));
    let since = Instant::now();
    while since.elapsed() < HOLD {
        std::thread::park_timeout(HOLD);
    }
    somebody.unlock().expect("it is let go");
    until(|| waited("count").filter(|count| *count > 1.0));
    let waited = waited("sum").expect("a sum") - before;
    assert!((0.1..10.0).contains(&waited), "{waited} seconds\n{}", program.log().join("\n"));
}

/// kube-proxy would notice at the next full sync, within the hour or never.
#[test]
fn a_single_chain_that_somebody_emptied_is_noticed() {
    let Some(stand) = ready() else { return };
    let program = serve(&stand, &MODE);
    empty_a_chain_and_see(&stand, &program);
}

#[test]
fn another_period_counts_without_a_restart() {
    let Some(stand) = ready() else { return };
    let write = |period: &str| {
        let text = format!(
            "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: iptables\n\
             clusterCIDR: 10.244.0.0/16\nlogging: {{verbosity: 2}}\niptables: {{syncPeriod: {period}, minSyncPeriod: 1ms}}\n"
        );
        fs::write(stand.folder().join("configuration"), text).expect("a file");
    };
    write("10m");
    let file = stand.folder().join("configuration").to_string_lossy().into_owned();
    let program = serve(&stand, &["--config", &file]);
    write("1s");
    empty_a_chain_and_see(&stand, &program);
}

fn empty_a_chain_and_see(stand: &Stand, program: &Program) {
    let before = rules(stand);
    let chain = before.lines().find_map(|line| line.strip_prefix(":KUBE-SVC-")).expect("a chain");
    let chain = format!("KUBE-SVC-{}", chain.split(' ').next().expect("a name"));
    let said = program.said();
    run(stand, "iptables", &["-t", "nat", "-F", &chain]);
    let line = program.wait_for("Another program changed our rules, repaired", said, PATIENCE);
    assert!(line.is_some(), "{}", program.log().join("\n"));
    assert_eq!(sorted(&rules(stand)), sorted(&before));
}
