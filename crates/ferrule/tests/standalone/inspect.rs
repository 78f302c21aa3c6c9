//! Commands that ask the running proxy, or the kernel without one.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use ferrule_testkit::Program;
use ferrule_testkit::netns::or_skip;
use serde_json::Value;

use crate::stand::{ASKING_POD, BINARY, CLIENT, NODE, PATIENCE, PODS, Stand, VIP, service, slice, until};

/// A node that serves `web`, with a socket of its own.
struct Asked {
    stand: Stand,
    folder: tempfile::TempDir,
}

impl Asked {
    fn new() -> Self {
        let asked = Self { stand: Stand::new(), folder: tempfile::tempdir().expect("a folder") };
        asked.stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS)));
        asked
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("own/inspect.sock")
    }

    fn start(&self, more: &[&str]) -> Program {
        let socket = self.socket().to_string_lossy().into_owned();
        let program = self.stand.start(&[&["--inspect-socket", &*socket][..], more].concat());
        let synced = program.wait_for("family=\"IPv6\" written=", 0, PATIENCE);
        assert!(synced.is_some(), "no first sync:\n{}", program.log().join("\n"));
        until(|| self.socket().exists().then_some(()));
        program
    }

    /// Runs a command on the node.
    fn run(&self, arguments: &[&str]) -> Answer {
        let mut arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        arguments.push(format!("--inspect-socket={}", self.socket().display()));
        let command = || Command::new(BINARY).args(&arguments).stdin(Stdio::null()).output();
        Answer::from(self.stand.net.node().run(command).expect("the node").expect("the command runs"))
    }

    /// The flags of a proxy that would serve the folder as the running one does.
    fn offline(&self, arguments: &[&str]) -> Answer {
        let folder = self.stand.folder().to_string_lossy().into_owned();
        let flags =
            ["--manifests", &folder, "--hostname-override", "node-a", "--cluster-cidr", "10.244.0.0/16"];
        self.run(&[arguments, &flags].concat())
    }
}

struct Answer {
    code: i32,
    stdout: String,
    stderr: String,
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self {
            code: output.status.code().expect("no signal"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

impl Answer {
    fn json(&self) -> Value {
        let parsed = serde_json::from_str(&self.stdout);
        assert!(parsed.is_ok(), "{}{}", self.stdout, self.stderr);
        parsed.unwrap_or_default()
    }

    fn differences(&self) -> Vec<String> {
        let json = self.json();
        let lines = json["kernelDetail"]["differences"].as_array().cloned().unwrap_or_default();
        lines.iter().map(|line| line.as_str().unwrap_or_default().to_owned()).collect()
    }
}

#[test]
fn commands_ask_the_running_proxy_over_its_socket() {
    if !or_skip() {
        return;
    }
    let asked = Asked::new();
    assert_eq!(asked.run(&["status"]).code, 2, "no proxy yet");
    let program = asked.start(&[]);
    let mode = |path: &Path| std::fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
    assert_eq!((mode(&asked.socket()), mode(asked.socket().parent().expect("a folder"))), (0o600, 0o700));

    let status = asked.run(&["status"]);
    assert_eq!(status.code, 0, "{}", status.stderr);
    assert!(status.stdout.contains("node node-a, nftables mode, 1 Services"), "{}", status.stdout);

    let plan = asked.run(&["plan", "--namespace", "default", "-o", "json"]).json();
    assert_eq!((&plan["total"], &plan["frontends"][0]["service"]), (&5.into(), &"default/web:http".into()));
    assert_eq!(asked.run(&["plan", "--namespace", "other", "-o", "json"]).json()["total"], 0);

    let web = asked.run(&["explain", ASKING_POD, "default/web:http", "-o", "json"]);
    let json = web.json();
    assert_eq!(
        (web.code, &json["verdict"], &json["kernel"]),
        (0, &"forward".into(), &"agrees".into()),
        "{json:#}"
    );
    let endpoints: Vec<String> = PODS.iter().map(|pod| format!("{pod}:8080")).collect();
    assert_eq!((&json["endpoints"], &json["service"]), (&endpoints.into(), &"default/web:http".into()));
    let outside = asked.run(&["explain", "--from-outside", CLIENT, &format!("{NODE}:30080"), "-o", "json"]);
    let json = outside.json();
    assert_eq!(
        (outside.code, &json["masquerade"], &json["kernel"]),
        (0, &true.into(), &"agrees".into()),
        "{json:#}"
    );

    assert_eq!(asked.run(&["explain", ASKING_POD, &format!("{VIP}:81")]).code, 1);
    assert_eq!(asked.run(&["explain", ASKING_POD, "default/none"]).code, 2);
    assert_eq!(asked.run(&["explain", ASKING_POD]).code, 2);
    let diff = asked.run(&["diff"]);
    assert_eq!((diff.code, diff.stdout.as_str()), (0, ""), "{}", diff.stderr);

    assert!(program.terminate().expect("it ends").success());
    assert!(!asked.socket().exists(), "the socket goes with the process");
}

#[test]
fn a_socket_of_a_killed_process_is_replaced_and_one_of_a_live_process_is_left() {
    if !or_skip() {
        return;
    }
    let asked = Asked::new();
    asked.start(&[]).kill().expect("it ends");
    assert!(asked.socket().exists());
    let first = asked.start(&[]);
    until(|| (asked.run(&["status"]).code == 0).then_some(()));
    let ports = ["--metrics-bind-address=127.0.0.1:20249", "--healthz-bind-address=127.0.0.1:20256"];
    let socket = asked.socket().to_string_lossy().into_owned();
    let second = asked.stand.start(&[&["--inspect-socket", &*socket][..], &ports].concat());
    assert!(second.wait_for("Another process answers questions at this path", 0, PATIENCE).is_some());
    assert_eq!(asked.run(&["status"]).code, 0);
    // The one that waits answers once the other has ended.
    assert!(first.terminate().expect("it ends").success());
    until(|| (asked.run(&["status"]).code == 0).then_some(()));
    let said = second.log().iter().filter(|line| line.contains("Another process answers")).count();
    assert_eq!(said, 1);
}

#[test]
fn a_proxy_without_a_place_for_its_socket_serves_on() {
    if !or_skip() {
        return;
    }
    let asked = Asked::new();
    let off = asked.stand.start(&["--inspect-socket="]);
    assert!(off.wait_for("family=\"IPv6\" written=", 0, PATIENCE).is_some());
    assert_eq!(asked.run(&["status"]).code, 2);
    drop(off);
    let nowhere = asked.stand.start(&["--inspect-socket=/proc/nowhere/inspect.sock"]);
    let line = nowhere.wait_for("Questions are not answered at this path", 0, PATIENCE);
    assert!(line.is_some(), "{}", nowhere.log().join("\n"));
    assert!(nowhere.wait_for("family=\"IPv6\" written=", 0, PATIENCE).is_some());
}

/// In iptables mode lines of other Services do not count.
#[test]
fn a_rule_of_iptables_that_was_removed_by_hand_is_named() {
    let Some(_) = crate::iptables::ready() else { return };
    let asked = Asked::new();
    let mode = ["--proxy-mode=iptables"];
    let other = service("")
        .replace("name: web,", "name: other,")
        .replace(VIP, "10.96.0.11")
        .replace("nodePort: 30", "nodePort: 31");
    let of_other = slice(&PODS).replace("web", "other");
    asked.stand.write("other.yaml", &format!("{other}---\n{of_other}"));
    let program = asked.start(&mode);
    let whole = asked.run(&["explain", ASKING_POD, "default/web:http", "-o", "json"]);
    assert_eq!(whole.json()["kernel"], "agrees", "{:#}", whole.json());
    assert_eq!(asked.run(&["diff"]).code, 0);
    program.terminate().expect("it ends");
    let explain = |name: &str| {
        let question = ["explain", ASKING_POD, name, "--kernel", "-o", "json"];
        asked.offline(&[&question[..], &mode].concat())
    };
    assert_eq!(
        explain("default/web:http").json()["kernel"],
        "agrees",
        "{:#}",
        explain("default/web:http").json()
    );
    let saved = crate::iptables::rules(&asked.stand);
    let rule = saved.lines().find(|line| {
        line.starts_with("-A KUBE-SEP-") && line.contains("default/web:http") && line.contains("DNAT")
    });
    let chain = rule.and_then(|rule| rule.split(' ').nth(1)).expect("a rule of the Service");
    crate::iptables::run(&asked.stand, "iptables", &["-t", "nat", "-F", chain]);
    let broken = explain("default/web:http");
    assert!(
        ["missing", "differs"].map(Value::from).contains(&broken.json()["kernel"]),
        "{:#}",
        broken.json()
    );
    let differences = broken.differences();
    assert!(differences.iter().any(|line| line.contains(chain)), "{differences:?}");
    assert_eq!(
        explain("default/other:http").json()["kernel"],
        "agrees",
        "{:#}",
        explain("default/other:http").json()
    );
}

/// Only the process knows its sockets: the loop itself is asked.
#[test]
fn differences_in_userspace_mode_are_those_of_the_loop() {
    let Some(_) = crate::iptables::ready() else { return };
    let asked = Asked::new();
    let _program = asked.start(&["--proxy-mode=userspace"]);
    let diff = asked.run(&["diff"]);
    assert_eq!((diff.code, diff.stdout.as_str()), (0, ""), "{}", diff.stderr);
    let explained = asked.run(&["explain", ASKING_POD, "default/web:http", "-o", "json"]);
    assert_eq!((explained.code, &explained.json()["kernel"]), (0, &"unknown".into()));
}

/// Each piece that is removed by hand, and how it is named.
const DAMAGE: [(&[&str], &str, &str); 4] = [
    (
        &["delete element ip kube-proxy services { 10.96.0.10 . tcp . 80 }"],
        "missing",
        "missing: services 10.96.0.10 . tcp . 80",
    ),
    (&["flush map ip kube-proxy endpoints"], "missing", "missing: endpoints 10.96.0.10 . tcp . 80 . 0"),
    (&["flush chain ip kube-proxy services"], "differs", "differs: chain services"),
    (&["delete table ip kube-proxy"], "missing", "missing: table ip kube-proxy"),
];

#[test]
fn a_piece_that_was_removed_by_hand_is_named() {
    if !or_skip() {
        return;
    }
    let asked = Asked::new();
    for (damage, verdict, named) in DAMAGE {
        // The running proxy would repair it at once.
        asked.start(&[]).terminate().expect("it ends");
        let whole = asked.offline(&["explain", ASKING_POD, "default/web:http", "--kernel", "-o", "json"]);
        assert_eq!(whole.json()["kernel"], "agrees", "{:#}", whole.json());
        asked.stand.nft(damage);
        let broken = asked.offline(&["explain", ASKING_POD, "default/web:http", "--kernel", "-o", "json"]);
        assert_eq!(broken.json()["kernel"], verdict, "{damage:?}: {:#}", broken.json());
        let differences = broken.differences();
        assert!(differences.iter().any(|line| line.starts_with(named)), "{damage:?}: {differences:?}");
        let text = asked.offline(&["explain", ASKING_POD, "default/web:http", "--kernel"]);
        assert!(text.code == 0 && text.stdout.contains(named), "{}", text.stdout);
    }
}

#[test]
fn differences_are_exactly_what_was_changed() {
    if !or_skip() {
        return;
    }
    let asked = Asked::new();
    asked.start(&[]).terminate().expect("it ends");
    let synced = asked.offline(&["diff"]);
    assert_eq!((synced.code, synced.stdout.as_str()), (0, ""), "{}", synced.stderr);
    asked.stand.nft(&["delete element ip kube-proxy services { 10.96.0.10 . udp . 53 }"]);
    let diff = asked.offline(&["diff"]);
    assert_eq!((diff.code, diff.stdout.lines().count()), (1, 1), "{}{}", diff.stdout, diff.stderr);
    assert!(diff.stdout.starts_with("ip add element services 10.96.0.10 . udp . 53"), "{}", diff.stdout);
}

#[test]
fn the_difference_a_folder_would_make_is_planned_by_the_running_proxy() {
    if !or_skip() {
        return;
    }
    let asked = Asked::new();
    let _program = asked.start(&[]);
    let changed = tempfile::tempdir().expect("a folder");
    let web = changed.path().join("web.yaml");
    std::fs::write(&web, format!("{}---\n{}", service(""), slice(&PODS))).expect("written");
    let changed = changed.path().to_string_lossy().into_owned();
    let same = asked.run(&["diff", "--manifests", &changed]);
    assert_eq!((same.code, same.stdout.as_str()), (0, ""), "{}", same.stderr);
    std::fs::write(&web, format!("{}---\n{}", service(""), slice(&PODS[..2]))).expect("written");
    let before = asked.stand.nft(&["list", "table", "ip", "kube-proxy"]);
    let fewer = asked.run(&["diff", "--manifests", &changed]);
    assert_eq!(fewer.code, 1, "{}", fewer.stderr);
    assert!(
        fewer.stdout.contains("ip delete element endpoints 10.96.0.10 . tcp . 80 . 2"),
        "{}",
        fewer.stdout
    );
    assert_eq!(asked.stand.nft(&["list", "table", "ip", "kube-proxy"]), before, "nothing was written");
    std::fs::write(&web, "kind: [").expect("written");
    assert_eq!(asked.run(&["diff", "--manifests", &changed]).code, 2, "a broken file is no plan");
}

#[test]
fn the_status_can_be_watched_until_its_reader_has_gone() {
    if !or_skip() {
        return;
    }
    let asked = Asked::new();
    let _program = asked.start(&[]);
    let socket = format!("--inspect-socket={}", asked.socket().display());
    let command = || {
        let arguments = ["status", "--watch", "--interval=1", &socket];
        Command::new(BINARY).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()
    };
    let mut watching = asked.stand.net.node().run(command).expect("the node").expect("the command runs");
    let lines = BufReader::new(watching.stdout.take().expect("its output")).lines();
    let headings = lines.map(|line| line.expect("text")).filter(|line| line.starts_with("node node-a"));
    // The reader goes after two.
    assert_eq!(headings.take(2).count(), 2);
    assert_eq!(watching.wait().expect("it ends").code(), Some(0));
}
