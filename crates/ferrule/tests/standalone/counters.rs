//! Counters equal what clients did, to the connection: over churn, restarts, resyncs and damage, in every mode.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ferrule_kernel::nft::{NftNotifications, NftWatch};
use ferrule_testkit::Program;
use ferrule_testkit::netns::{Seen, or_skip};
use serde_json::Value;

use crate::stand::{ASKING_POD, CLIENT, NODE, PATIENCE, PODS, Stand, Talker, VIP, service, slice, until};

const HTTP: &str = "default/web:http";
const DNS: &str = "default/web:dns";
const ON: &str = "--service-counters=all";
const NFTABLES: &[&str] = &["--proxy-mode", "nftables", ON];
const IPTABLES: &[&str] = &["--proxy-mode", "iptables", ON];
const PROGRAMS: &[&str] =
    &["--proxy-mode", "iptables", ON, "--iptables-access=programs", "--iptables-sync-period=1s"];

const USERSPACE: &[&str] = &["--proxy-mode", "userspace", ON];

/// What clients did, and the proxy that counts it.
struct Counting {
    stand: Stand,
    arguments: &'static [&'static str],
    /// Connections by Service port and endpoint.
    made: BTreeMap<(&'static str, String), u64>,
}

impl Counting {
    fn new(arguments: &'static [&'static str]) -> Self {
        let stand = Stand::new();
        stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS[..2])));
        Self { stand, arguments, made: BTreeMap::new() }
    }

    fn serve(&self) -> Program {
        let program = self.stand.start(self.arguments);
        let synced = program.wait_for("family=\"IPv6\" written=", 0, PATIENCE);
        assert!(synced.is_some(), "no first sync:\n{}", program.log().join("\n"));
        program
    }

    /// Connects so many times, and notes who answered.
    fn connect(&mut self, from: &str, (to, port): (&str, u16), times: usize) {
        for _ in 0..times {
            let seen = self.stand.ask(from, to, port);
            let by = if let Seen::Answered { by, .. } = &seen { Some(by) } else { None };
            assert!(by.is_some(), "{from} → {to}:{port}: {seen:?}");
            let Some(by) = by else { return };
            *self.made.entry((HTTP, by.to_string())).or_default() += 1;
        }
    }

    /// On every way that a packet can take to a Service.
    fn connect_on_all_ways(&mut self) {
        self.connect(ASKING_POD, (VIP, 80), 5);
        self.connect(CLIENT, (NODE, 30080), 3);
        self.connect(NODE, (VIP, 80), 2);
        self.connect(NODE, (NODE, 30080), 2);
        // An endpoint meets itself.
        self.connect(PODS[1], (VIP, 80), 4);
    }

    /// One flow, however much is said in it.
    fn talk(&mut self, may_answer: &[&str]) {
        let talker = Talker::new(&self.stand, ASKING_POD, VIP, 53);
        let by = talker.ask_until(may_answer);
        for _ in 0..3 {
            assert_eq!(talker.ask().expect("an answer"), by);
        }
        *self.made.entry((DNS, format!("{by}:8080"))).or_default() += 1;
    }

    fn change_endpoints(&mut self, pods: &[&str]) {
        self.stand.write("slices.yaml", &slice(pods));
        self.stand.write("web.yaml", &service(""));
        let plan = |frontend: &Value| {
            let pools = frontend["pools"].as_array().cloned().unwrap_or_default();
            let of_http = pools.iter().find(|pool| pool["service"] == HTTP).cloned().unwrap_or_default();
            let endpoints = of_http["endpoints"].as_array().cloned().unwrap_or_default();
            endpoints.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        let wanted: Vec<String> = pods.iter().map(|pod| format!("{pod}:8080")).collect();
        until(|| {
            let answer = page(&self.stand, "plan");
            let status = page(&self.stand, "status");
            (plan(&answer) == wanted
                && answer["pendingChanges"] == false
                && status["families"]["IPv4"]["inSync"] == true)
                .then_some(())
        });
    }

    /// The counters are what clients did, for each endpoint and as a sum.
    fn check(&self, what: &str) {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let answer = page(&self.stand, "counters");
            if self.is_true(&answer) {
                return;
            }
            assert!(Instant::now() < give_up, "{what}: made {:?}, counted {answer:#}", self.made);
        }
    }

    fn is_true(&self, answer: &Value) -> bool {
        assert_eq!(answer["enabled"], true);
        let services = answer["services"].as_array().expect("a list");
        let mut counted = BTreeMap::new();
        for service in services {
            let name = if service["service"] == HTTP { HTTP } else { DNS };
            let mut sum = 0;
            for endpoint in service["endpoints"].as_array().expect("a list") {
                let connections = endpoint["connections"].as_u64().expect("a number");
                sum += connections;
                if connections > 0 {
                    let text = endpoint["endpoint"].as_str().expect("a text").to_owned();
                    counted.insert((name, text), connections);
                }
            }
            if service["connections"].as_u64() != Some(sum) {
                return false;
            }
        }
        services.len() == 2 && counted == self.made
    }
}

fn page(stand: &Stand, page: &str) -> Value {
    let text = until(|| stand.net.node().page(10249, &format!("/ferrule/v1/{page}")));
    serde_json::from_str(&text).expect("JSON")
}

fn counts_exactly(arguments: &'static [&'static str], damage: fn(&Stand)) {
    if !or_skip() {
        return;
    }
    let mut counting = Counting::new(arguments);
    let program = counting.serve();
    counting.check("nothing yet");
    counting.connect_on_all_ways();
    counting.talk(&PODS[..2]);
    counting.check("all ways");

    counting.change_endpoints(&PODS[1..]);
    counting.connect_on_all_ways();
    counting.talk(&PODS[1..]);
    counting.check("other endpoints");

    let said = program.said();
    damage(&counting.stand);
    let repaired = program.wait_for("Another program changed our rules, repaired", said, PATIENCE);
    assert!(repaired.is_some(), "{}", program.log().join("\n"));
    counting.connect_on_all_ways();
    counting.check("damage");

    program.terminate().expect("it ends");
    counting.connect(ASKING_POD, (VIP, 80), 3);
    let program = counting.serve();
    counting.connect_on_all_ways();
    counting.check("a restart");

    counting.stand.remove("web.yaml");
    until(|| {
        page(&counting.stand, "counters")["services"].as_array().is_some_and(Vec::is_empty).then_some(())
    });
    counting.change_endpoints(&PODS);
    counting.connect_on_all_ways();
    counting.talk(&PODS);
    counting.check("a Service that was deleted and came back");
    drop(program);
}

#[test]
fn nftables_mode_counts_what_clients_did() {
    counts_exactly(NFTABLES, |stand| {
        stand.nft(&["delete", "table", "ip", "kube-proxy"]);
    });
}

#[test]
fn iptables_mode_counts_what_clients_did() {
    counts_exactly(IPTABLES, |stand| {
        crate::userspace::run(stand, "iptables", &["-t", "nat", "-F"]);
    });
}

#[test]
fn iptables_mode_by_programs_counts_what_clients_did() {
    counts_exactly(PROGRAMS, |stand| {
        crate::userspace::run(stand, "iptables", &["-t", "nat", "-X", "KUBE-PROXY-CANARY"]);
    });
}

/// The relay counts itself, and a new process begins at zero.
#[test]
fn userspace_mode_counts_what_clients_did() {
    if !or_skip() {
        return;
    }
    let mut counting = Counting::new(USERSPACE);
    let program = counting.serve();
    counting.connect_on_all_ways();
    counting.talk(&PODS[..2]);
    counting.check("all ways");
    counting.change_endpoints(&PODS[1..]);
    counting.connect_on_all_ways();
    counting.check("other endpoints");
    counting.stand.remove("web.yaml");
    until(|| page(&counting.stand, "counters")["services"].as_array()?.is_empty().then_some(()));
    counting.change_endpoints(&PODS);
    counting.connect(ASKING_POD, (VIP, 80), 3);
    counting.check("a Service that was deleted and came back");

    program.terminate().expect("it ends");
    counting.made.clear();
    let _program = counting.serve();
    counting.connect(ASKING_POD, (VIP, 80), 3);
    counting.check("a restart");
}

/// What was read before stays, and counting goes on.
#[test]
fn counters_that_another_program_removed_come_back_and_never_go_down() {
    if !or_skip() {
        return;
    }
    let mut counting = Counting::new(NFTABLES);
    let program = counting.serve();
    for damage in [
        &["delete", "table", "ip", "ferrule-counters"][..],
        &["flush", "set", "ip", "ferrule-counters", "services"],
        &["flush", "set", "ip", "ferrule-counters", "endpoints"],
        &["delete", "element", "ip", "ferrule-counters", "services", "{ 10.96.0.10 . tcp . 80 }"],
    ] {
        counting.connect_on_all_ways();
        counting.check("before damage");
        counting.stand.nft(damage);
        for set in ["services", "nodeports"] {
            let set = ["list", "set", "ip", "ferrule-counters", set];
            until(|| {
                page(&counting.stand, "counters");
                let listed = counting.stand.net.node().feed("nft", &set, "").ok()?;
                String::from_utf8(listed.stdout).ok()?.contains("default/web:http/tcp").then_some(())
            });
        }
        // An answer may be a second old; this one is a reading of what the damage left.
        let damaged = Instant::now();
        until(|| {
            page(&counting.stand, "counters");
            (damaged.elapsed() > 2 * Duration::from_secs(1)).then_some(())
        });
        counting.check("after damage");
    }
    // All of it is in the kernel, but for what was known to the process alone.
    counting.connect_on_all_ways();
    counting.check("in the end");
    drop(program);
}

#[test]
fn a_listing_of_the_table_can_be_loaded_again() {
    if !or_skip() {
        return;
    }
    let mut counting = Counting::new(NFTABLES);
    let program = counting.serve();
    counting.connect_on_all_ways();
    counting.check("all ways");
    program.terminate().expect("it ends");
    for family in ["ip", "ip6"] {
        let table = ["list", "table", family, "ferrule-counters"];
        let listed = counting.stand.nft(&table);
        counting.stand.nft(&["delete", "table", family, "ferrule-counters"]);
        let loaded = counting.stand.net.node().feed("nft", &["-f", "-"], &listed);
        assert!(loaded.is_ok(), "{listed}");
        assert_eq!(counting.stand.nft(&table), listed);
    }
}

#[test]
fn labels_and_the_limit_choose_what_is_counted() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    let slices = slice(&PODS);
    stand.write("web.yaml", &format!("{}---\n{slices}", service("")));
    let arguments = ["--service-counters=labelled", "--service-counters-limit=1"];
    let program = stand.start(&arguments);
    let names = || {
        let answer = page(&stand, "counters");
        let services = answer["services"].as_array().expect("a list");
        services
            .iter()
            .map(|service| service["service"].as_str().unwrap_or("?").to_owned())
            .collect::<Vec<_>>()
    };
    until(|| (page(&stand, "status")["families"]["IPv4"]["inSync"] == true).then_some(()));
    assert_eq!(names(), Vec::<String>::new());
    let labelled = service("").replace(
        "{name: web, namespace: default}",
        "{name: web, namespace: default, labels: {ferrule.dev/counters: \"true\"}}",
    );
    stand.write("web.yaml", &format!("{labelled}---\n{slices}"));
    until(|| (names() == [DNS]).then_some(()));
    let warned = program.wait_for("the rest is not counted", 0, PATIENCE);
    assert!(warned.is_some_and(|line| line.contains("1 Service ports")));
    let metrics = until(|| {
        let text = stand.net.node().page(10249, "/metrics")?;
        text.contains("ferrule_service_counters_omitted 1").then_some(text)
    });
    let series = "ferrule_service_connections_total{namespace=\"default\",port=\"dns\",protocol=\"UDP\",service=\"web\"} 0";
    assert!(metrics.contains(series), "{metrics}");
    let endpoints = metrics.matches("ferrule_service_endpoint_connections_total{").count();
    assert_eq!(endpoints, PODS.len());
}

#[test]
fn without_counters_there_is_no_table_and_top_says_how_to_switch_them_on() {
    if !or_skip() {
        return;
    }
    let mut counting = Counting::new(NFTABLES);
    let counted = counting.serve();
    counting.connect(ASKING_POD, (VIP, 80), 2);
    counting.check("two");
    let socket = counting.stand.folder().join("own/inspect.sock").to_string_lossy().into_owned();
    let top = |more: &[&str]| {
        let arguments = [&["top", "--inspect-socket", &socket], more].concat();
        let command = || std::process::Command::new(crate::stand::BINARY).args(&arguments).output();
        let output = counting.stand.net.node().run(command).expect("the node").expect("it runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    counted.terminate().expect("it ends");
    let with_socket = counting.stand.start(&[ON, "--inspect-socket", &socket]);
    until(|| std::path::Path::new(&socket).exists().then_some(()));
    let (code, stdout, stderr) = until(|| {
        let answer = top(&["--interval=1", "--endpoints"]);
        answer.1.contains(HTTP).then_some(answer)
    });
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("default/web:http ") && stdout.contains("  10.244.1."), "{stdout}");
    let (_, json, _) = top(&["--interval=1", "--once", "-o", "json", "-n", "default"]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let http = json["services"].as_array().expect("a list").iter().find(|row| row["service"] == HTTP);
    assert_eq!(http.expect("the Service")["connections"], 2);
    with_socket.terminate().expect("it ends");

    let off = counting.stand.start(&["--inspect-socket", &socket]);
    assert!(off.wait_for("Removed the counters of an earlier run", 0, PATIENCE).is_some());
    until(|| top(&[]).2.contains("counts no connections").then_some(()));
    let (code, _, stderr) = top(&["--once"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("--service-counters=all"), "{stderr}");
    assert!(!counting.stand.nft(&["list", "tables"]).contains("ferrule-counters"));
}

/// The relay counts itself: the table is no one's any more.
#[test]
fn a_mode_that_counts_without_the_table_removes_it() {
    if !or_skip() {
        return;
    }
    let counting = Counting::new(NFTABLES);
    counting.serve().terminate().expect("it ends");
    assert!(counting.stand.nft(&["list", "tables"]).contains("ferrule-counters"));
    let program = counting.stand.start(USERSPACE);
    assert!(program.wait_for("Removed the counters of an earlier run", 0, PATIENCE).is_some());
    until(|| (page(&counting.stand, "status")["families"]["IPv4"]["inSync"] == true).then_some(()));
    assert!(!counting.stand.nft(&["list", "tables"]).contains("ferrule-counters"));
    program.terminate().expect("it ends");
}

#[test]
fn cleanup_removes_counters() {
    if !or_skip() {
        return;
    }
    let counting = Counting::new(NFTABLES);
    counting.serve().terminate().expect("it ends");
    assert!(counting.stand.nft(&["list", "tables"]).contains("table ip ferrule-counters"));
    assert!(counting.stand.start(&["--cleanup"]).wait().expect("it ends").success());
    assert_eq!(counting.stand.nft(&["list", "tables"]).trim(), "");
}

#[test]
fn a_restart_with_nothing_changed_commits_nothing() {
    if !or_skip() {
        return;
    }
    let mut counting = Counting::new(NFTABLES);
    let program = counting.serve();
    counting.connect_on_all_ways();
    counting.check("before");
    program.terminate().expect("it ends");
    let watch = counting.stand.net.node().run(NftWatch::open).expect("the node");
    let mut watch = watch.expect("a socket");
    let _program = counting.serve();
    counting.check("after");
    let news = watch.read().expect("the kernel's news");
    assert!(matches!(&news, NftNotifications::Received(commits) if commits.is_empty()), "{news:?}");
}
