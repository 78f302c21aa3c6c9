//! The configuration file turns hostile while the program runs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::root::wait;
use crate::stand::PATIENCE;
use crate::table::{Seen, Table, not_tried};
use crate::victim::Victim;

const STAYS: &str = "serves on with the configuration in effect";
const GOOD: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: nftables\n\
                    hostnameOverride: node-a\ndetectLocalMode: ClusterCIDR\nclusterCIDR: 10.244.0.0/16\nlogging: {verbosity: 2}\n";

/// One line for each time the file is read: every two seconds while it changes all the time.
const MAX_LINES: usize = 20;

type Change = fn(&Path);

pub fn attack(table: &mut Table) {
    table.group("careless operator");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config.yaml");
    fs::write(&file, GOOD).expect("a configuration");
    let argument = format!("--config={}", file.display());
    let victim = Victim::new(&[&argument]);
    for (what, change) in CHANGES {
        table.attack(format!("the configuration becomes {what}"), STAYS, || changed(&victim, &file, *change));
    }
    table.attack(
        "the configuration changes 300 times in three seconds",
        "serves on; the log stays short",
        || changed_often(&victim, &file),
    );
    if table.is_full() {
        table.attack(
            "the configuration becomes a file on a file system that does not answer",
            "serves on, told once; goes on watching once it answers",
            dead_file_system,
        );
    }
}

fn dead_file_system() -> Seen {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config.yaml");
    fs::write(&file, GOOD).expect("a configuration");
    let victim = Victim::beside_dead_file_system(folder.path());
    let mounts = fs::read_to_string(format!("/proc/{}/mounts", victim.program.id())).unwrap_or_default();
    if !mounts.contains("/dead fuse") {
        let is_there = Path::new("/dev/fuse").exists();
        return not_tried("FUSE", is_there);
    }
    let said = victim.program.said();
    let link = folder.path().join("link");
    symlink("dead/config.yaml", &link).expect("a link");
    fs::rename(&link, &file).expect("the link takes the file's place");
    victim.is_well_and_said(said, "it does not answer")?;
    let told =
        |words: &str| victim.program.log().iter().skip(said).filter(|line| line.contains(words)).count();
    fs::remove_file(folder.path().join("alive")).expect("the file system goes");
    remove(&file);
    fs::write(&file, GOOD.replace("verbosity: 2", "verbosity: 3")).expect("a configuration");
    let applied = victim.program.wait_for("Configuration file changed", said, PATIENCE);
    applied.ok_or_else(|| {
        format!("what came later is not read:\n{}", victim.program.log()[said..].join("\n"))
    })?;
    let seen = victim.is_well()?;
    match told("it does not answer") {
        1 => Ok(format!("{seen}; told once, watched again")),
        lines => Err(format!("{lines} lines")),
    }
}

fn changed(victim: &Victim, file: &Path, change: Change) -> Seen {
    let said = victim.program.said();
    remove(file);
    change(file);
    let seen = victim.is_well_and_said(said, "the configuration in effect stays");
    let said = victim.program.said();
    remove(file);
    fs::write(file, GOOD).expect("a configuration");
    let again = victim.is_well_and_said(said, "Configuration file changed, no effective change");
    seen.and(again)
}

/// Ends with a file that is another and valid, so that the log shows when the last of them was read.
fn changed_often(victim: &Victim, file: &Path) -> Seen {
    let said = victim.program.said();
    for turn in 0..300 {
        fs::write(file, if turn % 2 == 0 { "mode: [" } else { GOOD }).expect("a configuration");
        wait(Duration::from_millis(10));
    }
    fs::write(file, format!("{GOOD}conntrack: {{min: 200001}}\n")).expect("a configuration");
    let applied = victim.program.wait_for("Configuration file changed, applying it", said, PATIENCE);
    applied.ok_or("the last of them is not in effect")?;
    let lines = victim.program.said() - said;
    let seen = victim.is_well()?;
    if lines > MAX_LINES { Err(format!("{lines} lines")) } else { Ok(format!("{seen}; {lines} lines")) }
}

const CHANGES: &[(&str, Change)] = &[
    ("invalid", |file| fs::write(file, "mode: [").expect("a file")),
    ("an unknown mode", |file| fs::write(file, GOOD.replace("nftables", "magic")).expect("a file")),
    ("a named pipe", |file| {
        mknodat(CWD, file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    }),
    ("a folder", |file| fs::create_dir(file).expect("a folder")),
    ("a link to itself", |file| symlink("config.yaml", file).expect("a link")),
    ("a link to a device without end", |file| symlink("/dev/zero", file).expect("a link")),
    ("a terabyte of holes", |file| {
        fs::File::create(file).and_then(|file| file.set_len(1 << 40)).expect("a sparse file");
    }),
    ("bytes that are no text", |file| fs::write(file, b"\0\xff\xfe\x1b[2J").expect("a file")),
    ("gone", |_| {}),
];

fn remove(file: &Path) {
    let path: PathBuf = file.to_owned();
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir(&path).expect("the folder goes"),
        Ok(_) => fs::remove_file(&path).expect("the file goes"),
        Err(_) => {}
    }
}
