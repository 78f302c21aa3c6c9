//! Whatever takes the place of the configuration file while it runs, the configuration in effect stays, in one line each.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use ferrule_testkit::netns::or_skip;

use crate::failures::page;
use crate::stand::{ASKING_POD, PATIENCE, PODS, Stand, VIP, is_answered_by, service, slice, until};

const GOOD: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: nftables\n\
                    clusterCIDR: 10.244.0.0/16\n";

fn clear(path: &Path) {
    let is_directory = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    let _ = if is_directory { fs::remove_dir(path) } else { fs::remove_file(path) };
}

/// What may take the place of the file, and how.
type Hostile = (&'static str, fn(&Path));

const HOSTILE: [Hostile; 7] = [
    ("a pipe", |path| {
        assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success());
    }),
    ("a directory", |path| fs::create_dir(path).expect("a directory")),
    ("a link to itself", |path| symlink(path, path).expect("a link")),
    ("a device", |path| symlink("/dev/zero", path).expect("a link")),
    ("a gigabyte", |path| {
        fs::File::create(path).and_then(|file| file.set_len(1 << 30)).expect("a file");
    }),
    ("zeros", |path| fs::write(path, format!("{GOOD}mode: \0\0\0\n")).expect("a file")),
    ("nothing", |_| {}),
];

#[test]
fn whatever_takes_the_place_of_the_configuration_file_the_one_in_effect_stays() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS[..1])));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("config.conf");
    fs::write(&path, GOOD).expect("a file");
    let program = stand.start(&["--config", &path.to_string_lossy()]);
    stand.ask_until(ASKING_POD, VIP, 80, |seen| is_answered_by(seen, &PODS[..1]));
    let (before, _) = program.resident();
    for (round, (what, put)) in HOSTILE.into_iter().enumerate() {
        let said = program.said();
        clear(&path);
        put(&path);
        let told = program.wait_for("the configuration in effect stays", said, PATIENCE);
        assert!(told.is_some(), "{what}: {}", program.log().join("\n"));
        let said = program.said();
        clear(&path);
        let least = 200_000 + round;
        fs::write(&path, format!("{GOOD}conntrack: {{min: {least}}}\n")).expect("a file");
        let applied = program.wait_for("Configuration file changed", said, PATIENCE);
        assert!(applied.is_some(), "after {what}: {}", program.log().join("\n"));
        let shown = format!("\"min\":{least}");
        until(|| page(&stand, ("127.0.0.1", 10249), "/configz").filter(|page| page.contains(&shown)));
    }
    let (_, most) = program.resident();
    assert!(most < before + 60.0, "from {before} MiB to {most} MiB");
    assert!(program.terminate().expect("it ends").success());
}
