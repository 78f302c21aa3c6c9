//! What it takes to keep the table: one capability, for any user, on a read-only root file system. A table that another program
//! owns is left alone.
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

mod support;

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use ferrule_backends::nftables::{Reconciler, SyncError};
use ferrule_backends::{SyncOutcome, SyncReport, Trigger};
use ferrule_kernel::nft::{CommitError, TABLE};
use ferrule_kernel::port::NftReader as _;
use ferrule_kernel::probe::{ProbeError, probe};
use ferrule_model::IpFamily;
use support::lab::{Lab, world};
use support::{client, in_namespace};

/// Set in the process without privileges.
const UNPRIVILEGED: &str = "FERRULE_TEST_UNPRIVILEGED";
/// What that process says when it got to the end.
const ALL_DONE: &str = "all done without privileges";
/// `CAP_NET_ADMIN` and nothing else, as the kernel shows it.
const NET_ADMIN_ALONE: &str = "CapEff:\t0000000000001000";

/// A root that is read-only, a user that is nobody, one capability; then the program given as `$0`.
const AS_NOBODY: &str = "mount --make-rprivate / && mount -o remount,bind,ro / && \
    exec setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --inh-caps=-all,+net_admin \
    --ambient-caps=-all,+net_admin --bounding-set=-all,+net_admin \"$0\" \"$@\"";

/// Not a test of its own: what the process without privileges does.
#[test]
fn keeps_a_table_without_privileges() {
    if env::var_os(UNPRIVILEGED).is_none() {
        return;
    }
    let status = fs::read_to_string("/proc/self/status").expect("its own status");
    assert!(status.contains("Uid:\t65534") && status.contains(NET_ADMIN_ALONE), "{status}");
    fs::write("/ferrule-was-here", "").expect_err("the root is read-only");
    let found = probe(TABLE);
    assert!(found.ipv4.is_ok() && found.ipv6.is_ok() && found.conntrack.is_ok(), "{found:?}");
    let facts = "service one LoadBalancer 203.0.113.7 clusterIP 10.96.0.1,fd96::1 port 80→8080 nodePort 30080
        endpoint one 10.244.1.1 node a
        endpoint one fd44::1 node a";
    for family in IpFamily::BOTH {
        let mut lab = Lab::with(world(facts), client(family));
        lab.then("endpoint one 10.244.1.2 node a\nendpoint one fd44::2 node a");
        lab.then("service one clusterIP 10.96.0.1,fd96::1 port 80→8080 sessionAffinity ClientIP");
        lab.run_deferred();
        let again = Reconciler::new(client(family)).sync(lab.plan(), Trigger::verify());
        assert_eq!(again.expect("a restart"), SyncReport::default());
        lab.reconciler.remove_everything().expect("the table goes");
    }
    println!("{ALL_DONE}");
}

/// A copy of this program that any user can run; home folders mostly are closed.
struct Copy(PathBuf);

impl Copy {
    fn new() -> Self {
        let path = env::temp_dir().join(format!("ferrule-unprivileged-{}", std::process::id()));
        fs::copy(env::current_exe().expect("this program"), &path).expect("a copy of it");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its permissions");
        Self(path)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Runs a program as nobody, in namespaces of its own.
fn as_nobody(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "sh", "-c", AS_NOBODY, program]).args(arguments);
    command
}

#[test]
fn a_user_with_one_capability_and_a_read_only_root_keeps_the_table() {
    if env::var_os(UNPRIVILEGED).is_some() {
        return;
    }
    let trial = as_nobody("true", &[]).stderr(Stdio::null()).status();
    if !trial.is_ok_and(|status| status.success()) {
        assert!(
            env::var("CI").as_deref() != Ok("true"),
            "giving up privileges needs root, unshare and setpriv"
        );
        println!("skipped: giving up privileges needs root, unshare and setpriv");
        return;
    }
    let copy = Copy::new();
    let program = copy.0.to_str().expect("a plain path");
    let mut command = as_nobody(program, &["--exact", "keeps_a_table_without_privileges", "--nocapture"]);
    let output = command.env(UNPRIVILEGED, "1").output().expect("the process without privileges");
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success() && said.contains(ALL_DONE), "{said}");
}

#[test]
fn a_table_that_another_program_owns_is_left_alone_until_that_program_ends() {
    in_namespace(|| {
        let mut owner =
            Command::new("nft").arg("-i").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("nft");
        let mut input = owner.stdin.take().expect("its input");
        writeln!(input, "add table ip kube-proxy {{ flags owner; }}").expect("its input");
        input.flush().expect("its input");
        wait_for("the owner", || client(IpFamily::V4).table().expect("tables").is_some());
        assert!(matches!(probe(TABLE).ipv4, Err(ProbeError::Owned { .. })));
        let world = world("service one clusterIP 10.96.0.1 port 80→8080");
        let plan = world.family(IpFamily::V4).expect("IPv4 is served");
        let mut reconciler = Reconciler::new(client(IpFamily::V4));
        for _ in 0..2 {
            let error =
                reconciler.sync(plan, Trigger::verify()).expect_err("a table that another program owns");
            let SyncError::Commit(CommitError::Owned { owner: port, .. }) = error else {
                panic!("{error:?}")
            };
            assert_eq!(port, owner.id());
        }
        drop(input);
        owner.wait().expect("its end");
        wait_for("the kernel to clear up", || client(IpFamily::V4).table().expect("tables").is_none());
        assert_eq!(reconciler.sync(plan, Trigger::verify()).expect("a sync").outcome, SyncOutcome::Created);
    });
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < deadline, "waiting for {what} took too long");
        thread::yield_now();
    }
}
