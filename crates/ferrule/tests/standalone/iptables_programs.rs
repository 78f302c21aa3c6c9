//! Which programs are run in iptables mode: those of absolute folders, and nobody's who can write to the current one.

use std::path::Path;

use ferrule_testkit::Program;

use crate::fakes::{Fakes, REAL_FOLDERS, names, start};
use crate::iptables::ready;
use crate::stand::{ASKING_POD, BINARY, PATIENCE, PODS, VIP, is_answered_by};

/// Somebody's programs, which leave a trace and do nothing else.
fn planted() -> Fakes {
    let planted = Fakes::new();
    for name in names().iter().map(String::as_str).chain(["ipset"]) {
        planted.add(name, ": >$HERE/was-run");
    }
    planted
}

#[test]
fn an_empty_or_relative_element_of_path_runs_nothing_from_the_current_folder() {
    let Some(stand) = ready() else { return };
    for path in [format!(":{REAL_FOLDERS}"), format!(".:{REAL_FOLDERS}"), ".".to_owned(), String::new()] {
        let planted = planted();
        let (folder, set) = (planted.folder().display().to_string(), format!("PATH={path}"));
        let program = start(&stand, &["-C", &folder, &set], &["--iptables-min-sync-period=1ms"]);
        let synced = program.wait_for("family=\"IPv6\" written=", 0, PATIENCE);
        assert!(!planted.file("was-run").exists(), "PATH={path:?}: {}", program.log().join("\n"));
        assert!(synced.is_some(), "PATH={path:?}: {}", program.log().join("\n"));
        assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS));
        program.terminate().expect("it ends");
    }
}

#[test]
fn neither_does_a_cleanup() {
    let Some(stand) = ready() else { return };
    let planted = planted();
    let folder = planted.folder().display().to_string();
    let path = format!("PATH=.:{REAL_FOLDERS}");
    let arguments = ["-C", &folder, &path, BINARY, "--cleanup"];
    let program = Program::start(stand.net.node(), Path::new("/usr/bin/env"), &arguments).expect("it starts");
    assert!(program.wait().expect("it ends").success());
    assert!(!planted.file("was-run").exists());
}
