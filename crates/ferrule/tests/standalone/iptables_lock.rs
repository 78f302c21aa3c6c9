//! The lock of the `legacy` variant: held by others for long, or nowhere to be made.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ferrule_testkit::Program;
use tempfile::NamedTempFile;

use crate::fakes::{REAL_FOLDERS, start};
use crate::iptables::{MODE, ready, run};
use crate::stand::{
    ASKING_POD, BINARY, NODE, PATIENCE, PODS, Stand, VIP, is_answered_by, service, slice, until,
};

const WAITS: &str = "Another program is in the way, changes wait for it";
/// Longer than the programs themselves would wait for it, and much shorter than the longest pause between two tries.
const HELD: Duration = Duration::from_secs(7);

/// IPv4 in the `legacy` variant, IPv6 in the other, and a lock of the test's own, in nobody else's way.
fn with_own_lock(stand: &Stand) -> (NamedTempFile, Program) {
    run(stand, "iptables-legacy", &["-t", "mangle", "-N", "KUBE-IPTABLES-HINT"]);
    run(stand, "ip6tables-nft", &["-t", "mangle", "-N", "KUBE-IPTABLES-HINT"]);
    let lock = NamedTempFile::new().expect("a lock");
    let place = format!("XTABLES_LOCKFILE={}", lock.path().display());
    let program = start(stand, &[&place], &MODE[2..]);
    let synced = program.wait_for("family=\"IPv6\" written=", 0, PATIENCE);
    assert!(synced.is_some(), "{}", program.log().join("\n"));
    (lock, program)
}

fn hold(lock: &NamedTempFile) -> File {
    let holder = File::open(lock.path()).expect("the lock");
    holder.lock().expect("it is free");
    holder
}

/// A Service of both families, whose IPv6 endpoint has this end.
fn write_dual_stack(stand: &Stand, end: u16) {
    stand.write(
        "dual.yaml",
        &format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: dual, namespace: default}}\nspec:\n  clusterIP: fd00:96::9\n  \
             ipFamilies: [IPv6]\n  clusterIPs: [\"fd00:96::9\"]\n  ports:\n  - {{name: http, port: 80, targetPort: 8080}}\n---\n\
             apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: dual-1\n  namespace: default\n  \
             labels: {{kubernetes.io/service-name: dual}}\naddressType: IPv6\nports:\n- {{name: http, port: 8080}}\n\
             endpoints:\n- {{addresses: [\"fd44::{end}\"]}}\n"
        ),
    );
}

#[test]
fn a_lock_held_for_long_makes_changes_wait_and_nothing_else() {
    let Some(stand) = ready() else { return };
    let (lock, program) = with_own_lock(&stand);
    let (holder, since) = (hold(&lock), Instant::now());
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS[..1])));
    assert!(program.wait_for(WAITS, 0, PATIENCE).is_some(), "{}", program.log().join("\n"));
    for end in 1.. {
        write_dual_stack(&stand, end);
        let endpoint = format!("fd44::{end}");
        until(|| run(&stand, "ip6tables-nft-save", &["-t", "nat"]).contains(&endpoint).then_some(()));
        assert_eq!(stand.net.node().page_status(10256, "/healthz"), Some(200));
        assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS), "the old rules serve");
        if since.elapsed() > HELD {
            break;
        }
    }
    let told = program.log().iter().filter(|line| line.contains("xtables lock")).count();
    assert_eq!(told, 1, "{}", program.log().join("\n"));
    drop(holder);
    let free = program.wait_for("No longer blocked by another program", 0, PATIENCE);
    assert!(free.is_some(), "{}", program.log().join("\n"));
    for _ in 0..10 {
        assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS[..1]), "what waited is written");
    }
}

#[test]
fn a_lock_held_at_the_start_makes_the_first_sync_wait_and_a_signal_end_it_at_once() {
    let Some(stand) = ready() else { return };
    let (lock, program) = with_own_lock(&stand);
    program.terminate().expect("it ends");
    run(&stand, "iptables-legacy", &["-t", "nat", "-F"]);
    // Finding out whether iptables works takes the lock as well, so it is taken once that is done.
    let place = format!("XTABLES_LOCKFILE={}", lock.path().display());
    let program = start(&stand, &[&place], &MODE[2..]);
    program.wait_for("Using iptables", 0, PATIENCE).expect("it begins");
    let holder = hold(&lock);
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS[..2])));
    assert!(program.wait_for(WAITS, 0, PATIENCE).is_some(), "{}", program.log().join("\n"));
    let began = Instant::now();
    assert_eq!(program.terminate().expect("it ends").code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(2), "it took {:?}", began.elapsed());
    drop(holder);
}

/// Runs it where `/run` is another one, made by a script.
fn with_run(stand: &Stand, script: &str) -> Program {
    let script = format!("{script} && exec \"$0\" \"$@\"");
    let child = stand.net.node().run(|| {
        Command::new("unshare")
            .args(["--mount", "sh", "-c", &script, BINARY, "--manifests"])
            .arg(stand.folder())
            .args(["--hostname-override=node-a", "-v=2", "--cluster-cidr=10.244.0.0/16"])
            .args(MODE)
            .env("PATH", REAL_FOLDERS)
            .stderr(Stdio::piped())
            .spawn()
    });
    Program::watching(child.expect("the node").expect("it starts")).expect("its log")
}

const READ_ONLY: &str = "mount -t tmpfs -o ro tmpfs /run";
const FULL: &str = "mount -t tmpfs -o nr_inodes=1 tmpfs /run";
const READ_ONLY_WITH_LOCK: &str =
    "mount -t tmpfs tmpfs /run && touch /run/xtables.lock && mount -o remount,ro /run";

/// Mounting is for root, or for who has a user namespace of his own.
fn may_mount() -> bool {
    let mounted =
        Command::new("unshare").args(["--mount", "sh", "-c", READ_ONLY]).stderr(Stdio::null()).status();
    let may = mounted.is_ok_and(|status| status.success());
    assert!(may || std::env::var("CI").is_err(), "this test needs to mount");
    may
}

#[test]
fn without_room_for_a_lock_the_legacy_variant_says_what_to_do() {
    let Some(stand) = ready().filter(|_| may_mount()) else { return };
    run(&stand, "iptables-legacy", &["-t", "mangle", "-N", "KUBE-IPTABLES-HINT"]);
    for script in [READ_ONLY, FULL] {
        let program = with_run(&stand, script);
        let line = program.wait_for("command failed", 0, PATIENCE).unwrap_or_default();
        assert!(line.contains("/run must be writable, or /run/xtables.lock be there"), "{line}");
        assert_eq!(program.wait().expect("it ends").code(), Some(1));
    }
    let program = with_run(&stand, READ_ONLY_WITH_LOCK);
    assert!(program.wait_for("Rules written", 0, PATIENCE).is_some(), "{}", program.log().join("\n"));
    assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS));
}

#[test]
fn the_nft_variant_does_not_care_about_run() {
    let Some(stand) = ready().filter(|_| may_mount()) else { return };
    for family in ["iptables-nft", "ip6tables-nft"] {
        run(&stand, family, &["-t", "mangle", "-N", "KUBE-IPTABLES-HINT"]);
    }
    for (number, script) in [READ_ONLY, FULL].into_iter().enumerate() {
        let program = with_run(&stand, script);
        stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS[..=number])));
        let synced = program.wait_for("family=\"IPv6\" written=", 0, PATIENCE);
        assert!(synced.is_some(), "{}", program.log().join("\n"));
        assert!(is_answered_by(&stand.ask(ASKING_POD, NODE, 30080), &PODS));
        program.terminate().expect("it ends");
    }
    assert!(Path::new("/run").exists());
}
