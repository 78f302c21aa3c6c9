//! The configuration file turns hostile while the program runs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::stand::PATIENCE;
use crate::table::{Seen, Table};
use crate::victim::Victim;

const STAYS: &str = "serves on with the configuration in effect";
const GOOD: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: nftables\n\
                    hostnameOverride: node-a\ndetectLocalMode: ClusterCIDR\nclusterCIDR: 10.244.0.0/16\nlogging: {verbosity: 2}\n";

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
    table.attack("the configuration changes 300 times in a row", "serves on; the log stays short", || {
        let said = victim.program.said();
        for turn in 0..300 {
            fs::write(&file, if turn % 2 == 0 { "mode: [" } else { GOOD }).expect("a configuration");
        }
        let seen = victim.is_well()?;
        let lines = victim.program.said() - said;
        if lines > 700 { Err(format!("{lines} lines")) } else { Ok(format!("{seen}; {lines} lines")) }
    });
}

fn changed(victim: &Victim, file: &Path, change: Change) -> Seen {
    remove(file);
    change(file);
    let seen = victim.is_well();
    remove(file);
    fs::write(file, GOOD).expect("a configuration");
    let again = victim.is_well();
    let _ = PATIENCE;
    seen.and(again)
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
