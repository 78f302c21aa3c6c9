//! With less than root's rights, and with things that cannot work: it serves, or one clear line says what to do.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};

use ferrule_kernel::nft::{Family, NftClient};
use ferrule_kernel::port::NftReader as _;
use ferrule_testkit::Program;
use ferrule_testkit::netns::{Namespace, or_skip};

use crate::stand::{ASKING_POD, BINARY, PATIENCE, PODS, Stand, VIP, is_answered_by, service, slice, until};

fn stand() -> Stand {
    let stand = Stand::new();
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS)));
    let readable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(stand.folder(), readable).expect("everybody may read the folder");
    stand
}

/// Runs the program as nobody, with a root file system that nobody can write to, and with these capabilities.
fn as_nobody(stand: &Stand, capabilities: &str) -> Program {
    let script = format!(
        "mount -o remount,bind,ro / && exec setpriv --reuid=65534 --regid=65534 --clear-groups \
         --inh-caps={capabilities} --ambient-caps={capabilities} --bounding-set={capabilities} \
         \"$0\" --manifests \"$1\" --hostname-override node-a -v=2 --cluster-cidr 10.244.0.0/16"
    );
    let child = stand.net.node().run(|| {
        Command::new("unshare")
            .args(["--mount", "sh", "-c", &script, BINARY])
            .arg(stand.folder())
            .stderr(Stdio::piped())
            .spawn()
    });
    Program::watching(child.expect("the node").expect("it starts")).expect("its log")
}

/// Other users' rights can be had only by root proper.
fn is_root() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let whole = map.split_whitespace().last().is_some_and(|count| count == "4294967295");
    whole && rustix::process::geteuid().is_root()
}

fn complaint(program: Program) -> String {
    let line = program.wait_for("command failed", 0, PATIENCE);
    assert!(line.is_some(), "no complaint:\n{}", program.log().join("\n"));
    assert_eq!(program.wait().expect("it ends").code(), Some(1));
    line.unwrap_or_default()
}

#[test]
fn it_serves_as_nobody_with_one_capability_and_a_read_only_root() {
    if !or_skip() || !is_root() {
        return;
    }
    let stand = stand();
    let program = as_nobody(&stand, "-all,+net_admin");
    let served = program.wait_for("Rules written", 0, PATIENCE);
    assert!(served.is_some(), "{}", program.log().join("\n"));
    assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS));
}

#[test]
fn without_the_capability_it_says_which_one() {
    if !or_skip() || !is_root() {
        return;
    }
    let line = complaint(as_nobody(&stand(), "-all"));
    assert!(line.contains("CAP_NET_ADMIN"), "{line}");
}

#[test]
fn a_table_that_another_program_owns_is_left_to_it() {
    if !or_skip() {
        return;
    }
    let stand = stand();
    let owner = owner(stand.net.node());
    let line = complaint(stand.start(&[]));
    assert!(line.contains("owned by another program") && line.contains("stop that program"), "{line}");
    drop(owner);
}

/// An `nft` that made the table its own and lives on.
fn owner(node: &Namespace) -> (Program, ChildStdin) {
    owning(node, "")
}

/// The same in the place of the table that is there.
pub fn owner_instead_of_our_table(node: &Namespace) -> (Program, ChildStdin) {
    owning(node, "delete table ip kube-proxy; ")
}

fn owning(node: &Namespace, before: &str) -> (Program, ChildStdin) {
    let spawned = node.run(|| {
        Command::new("nft")
            .arg("-i")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
    });
    let mut nft = spawned.expect("the node").expect("nft starts");
    let mut commands = nft.stdin.take().expect("its input");
    let command = format!("{before}add table ip kube-proxy {{ flags owner; }}\n");
    commands.write_all(command.as_bytes()).expect("a command");
    let program = Program::watching(nft).expect("its log");
    let mut kernel = node.run(|| NftClient::open(Family::Ip)).expect("the node").expect("a socket");
    until(|| kernel.table().ok().flatten().and_then(|table| table.owner));
    (program, commands)
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    if !or_skip() {
        return;
    }
    let stand = stand();
    let missing = stand.folder().join("nowhere");
    let program = Program::start(
        stand.net.node(),
        Path::new(BINARY),
        &["--manifests", &missing.to_string_lossy(), "--hostname-override", "node-a"],
    );
    let line = complaint(program.expect("it starts"));
    assert!(line.contains("nowhere") && line.contains("No such file"), "{line}");
}

/// Linux without IPVS, which is most of the machines that tests run on.
#[test]
fn a_kernel_without_ipvs_is_told_from_one_that_can_load_it() {
    if !or_skip() || matches!(ferrule_kernel::ipvs::Ipvs::open(), Ok(Some(_))) {
        println!("skipped: this kernel has IPVS, or nobody may ask");
        return;
    }
    let stand = stand();
    let arguments = [
        "--manifests",
        &stand.folder().display().to_string(),
        "--proxy-mode=ipvs",
        "--hostname-override=node-a",
    ];
    let program = Program::start(stand.net.node(), Path::new(BINARY), &arguments).expect("it starts");
    let line = complaint(program);
    assert!(line.contains("this kernel has no IPVS: load the module (modprobe ip_vs)"), "{line}");
    assert!(line.contains("--proxy-mode=nftables"), "{line}");
}
