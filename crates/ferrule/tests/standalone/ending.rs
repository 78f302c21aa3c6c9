//! The program ends when it is told to, whatever it waits for.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use ferrule_testkit::Program;
use ferrule_testkit::netns::or_skip;

use crate::stand::{BINARY, Stand, until};

/// Programs that never end, in the place of iptables; whoever runs one leaves a file.
fn hanging_programs(folder: &Path) {
    let script = format!("#!/bin/sh\n: >{}/asked\nexec sleep 600\n", folder.display());
    for family in ["iptables", "ip6tables"] {
        for variant in ["", "-nft", "-legacy"] {
            for suffix in ["", "-save", "-restore"] {
                let path = folder.join(format!("{family}{variant}{suffix}"));
                fs::write(&path, &script).expect("a script");
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it can be run");
            }
        }
    }
}

/// Row: server 3.17, 10.1
#[test]
fn a_signal_ends_it_promptly_though_a_program_hangs() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    let programs = tempfile::tempdir().expect("a folder");
    hanging_programs(programs.path());
    let path = format!("PATH={}:/usr/sbin:/usr/bin:/sbin:/bin", programs.path().display());
    let folder = stand.folder().to_string_lossy().into_owned();
    let arguments =
        [&path, BINARY, "--manifests", &folder, "--hostname-override=node-a", "--proxy-mode=iptables"];
    let program =
        Program::start(stand.net.node(), Path::new("/usr/bin/env"), &arguments).expect("the program starts");
    until(|| programs.path().join("asked").exists().then_some(()));
    let began = Instant::now();
    let status = program.terminate().expect("it ends");
    assert!(began.elapsed() < Duration::from_secs(10), "it took {:?}", began.elapsed());
    assert_eq!(status.code(), Some(0));
}
