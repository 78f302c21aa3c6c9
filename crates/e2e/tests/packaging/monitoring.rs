//! The rules and the dashboard for Prometheus.

use std::path::Path;
use std::process::Command;

use ferrule_testkit::Program;
use ferrule_testkit::monitoring::metric_names;
use ferrule_testkit::netns::or_skip;

use crate::empty_root::{TIMEOUT, world};
use crate::tools::{by_script, root};

#[test]
fn the_rules_do_what_their_tests_say() {
    let Some(promtool) = by_script("scripts/promtool", &[]) else { return };
    let folder = root().join("deploy/monitoring");
    for arguments in [["check", "rules", "ferrule.rules.yaml"], ["test", "rules", "ferrule.rules.test.yaml"]]
    {
        let output =
            Command::new(&promtool).args(arguments).current_dir(&folder).output().expect("promtool runs");
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said));
    }
}

/// Those of the relay exist only in a proxy that relays.
#[test]
fn metrics_of_the_relay_are_those_that_the_dashboard_shows() {
    if !or_skip() {
        return;
    }
    let (net, folder) = (world(), tempfile::tempdir().expect("a folder"));
    let manifests = format!("--manifests={}", folder.path().display());
    let program = Path::new(env!("CARGO_BIN_EXE_ferrule-under-test"));
    let arguments = [&*manifests, "--proxy-mode=userspace", "--hostname-override=node-a", "-v=2"];
    let program = Program::start(net.node(), program, &arguments).expect("it starts");
    let synced = program.wait_for("family=\"IPv4\" written=", 0, TIMEOUT);
    assert!(synced.is_some(), "no first sync:\n{}", program.log().join("\n"));
    let page = net.node().page(10249, "/metrics").expect("a page");
    let relayed: Vec<_> =
        metric_names().into_iter().filter(|name| name.starts_with("ferrule_relay_")).collect();
    assert!(relayed.len() >= 6, "{relayed:?}");
    for name in relayed {
        assert!(page.contains(&format!("# TYPE {name} ")), "{name} is not in:\n{page}");
    }
}
