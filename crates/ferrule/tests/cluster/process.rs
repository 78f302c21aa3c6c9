//! The process itself: as number 1 of a container, under systemd, with ports taken, and with `--init-only`.

use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ferrule_testkit::Program;
use ferrule_testkit::api_server::{ApiServer, or_skip};
use rustix::process::{Pid, Signal, kill_process};

use crate::site::{BINARY, PATIENCE, Site, within};

/// Starts the program by another one, in the node's namespace.
fn start_by(site: &Site, change: impl FnOnce(&mut Command) + Send, by: &[&str]) -> Program {
    let arguments = site.arguments();
    let started = site.net.node().run(|| {
        let (first, rest) = by.split_first().expect("a program");
        let mut command = Command::new(first);
        command.args(rest).args(&arguments).stderr(Stdio::piped()).stdout(Stdio::null());
        change(&mut command);
        command.spawn()
    });
    Program::watching(started.expect("the node").expect("it starts")).expect("its log")
}

/// Row: server 3.17
#[test]
fn as_process_1_it_ends_at_once_when_asked() {
    if !or_skip() {
        return;
    }
    let site = Site::new(ApiServer::shared(), "first-process");
    let by = ["unshare", "--pid", "--fork", "--kill-child", BINARY];
    let program = start_by(&site, |_| {}, &by);
    site.until_ready(&program);
    let children = format!("/proc/{0}/task/{0}/children", program.id());
    let inner = std::fs::read_to_string(children).expect("its children");
    let inner = inner.split_whitespace().next().and_then(|id| id.parse().ok()).and_then(Pid::from_raw);
    let asked = Instant::now();
    kill_process(inner.expect("a child"), Signal::TERM).expect("a signal");
    assert!(program.wait().expect("it ends").success());
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
}

#[test]
fn systemd_is_told_when_all_rules_are_there() {
    if !or_skip() {
        return;
    }
    let site = Site::new(ApiServer::shared(), "notify");
    let path = site.file("notify", "");
    std::fs::remove_file(&path).expect("the place is free");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let _program = start_by(
        &site,
        |command| {
            command.env("NOTIFY_SOCKET", &path);
        },
        &[BINARY],
    );
    let mut buffer = [0; 64];
    let length = socket.recv(&mut buffer).expect("a word");
    assert_eq!(&buffer[..length], b"READY=1\n");
    assert_eq!(site.page_until(10256, "/readyz", |_| true).status, 200);
}

/// Row: server 4.4
#[test]
fn a_taken_port_is_fatal_only_if_asked_for() {
    if !or_skip() {
        return;
    }
    let site = Site::new(ApiServer::shared(), "ports");
    for (port, server) in [(10249, "metrics"), (10256, "healthz")] {
        let taken = site.net.node().run(|| TcpListener::bind(("127.0.0.1", port))).expect("the node");
        let taken = taken.expect("the port");
        let program = site.start(&["--bind-address-hard-fail"]);
        let line = program.wait_for("command failed", 0, PATIENCE).expect("a complaint");
        assert!(line.contains(server) && line.contains("Address already in use"), "{line}");
        assert_eq!(program.wait().expect("it ends").code(), Some(1));
        let program = site.start(&[]);
        let line = program.wait_for("Cannot listen, retrying", 0, PATIENCE).expect("a complaint");
        assert!(line.contains(server), "{line}");
        drop(taken);
        assert!(program.wait_for("Listening after bind retry", 0, PATIENCE).is_some());
    }
}

/// Row: server 1.4
#[test]
fn init_only_sets_what_it_can_and_ends_well() {
    if !or_skip() {
        return;
    }
    let site = Site::new(ApiServer::shared(), "init");
    let program = site.start(&["--init-only", "--conntrack-tcp-timeout-established=1234s"]);
    let is_over =
        within(PATIENCE, || program.log().iter().any(|line| line.contains("nf_conntrack_max")).then_some(()));
    assert!(is_over.is_some(), "{}", program.log().join("\n"));
    assert!(program.wait().expect("it ends").success());
    let read = || {
        let mut text = String::new();
        let path = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established";
        std::fs::File::open(path)?.read_to_string(&mut text).map(|_| text)
    };
    assert_eq!(site.net.node().run(read).expect("the node").expect("a setting").trim(), "1234");
    let tables = site.net.node().feed("nft", &["list", "tables"], "").expect("nft").stdout;
    assert_eq!(tables, b"", "nothing is served");
}
