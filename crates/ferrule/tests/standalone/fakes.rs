//! Programs of the test's own in the place of iptables: they hang, take their time, or are not to be run at all.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ferrule_kernel::subprocess::find;
use ferrule_testkit::Program;
use tempfile::TempDir;

use crate::stand::{BINARY, Stand, until};

/// Where real programs are.
pub const REAL_FOLDERS: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// A folder of scripts, to stand first in `PATH`.
pub struct Fakes(TempDir);

impl Fakes {
    /// None yet.
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    /// The same script under every name that the iptables programs have.
    pub fn everywhere(script: &str) -> Self {
        let fakes = Self::new();
        for name in names() {
            fakes.add(&name, script);
        }
        fakes
    }

    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// A file in the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Puts a script there. `$HERE` in it is the folder.
    pub fn add(&self, name: &str, script: &str) {
        let path = self.file(name);
        let text = format!("#!/bin/sh\nHERE={}\n{script}\n", self.folder().display());
        fs::write(&path, text).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it can be run");
    }

    /// Puts a script before each of the real programs whose names end so; whatever it leaves of the input is theirs.
    pub fn before(&self, suffix: &str, script: &str) {
        let kind = |name: &str| {
            ["-save", "-restore"].into_iter().find(|suffix| name.ends_with(suffix)).unwrap_or("")
        };
        for name in names().iter().filter(|name| kind(name) == suffix) {
            self.before_program(name, script);
        }
    }

    /// The same with one program alone.
    pub fn before_program(&self, name: &str, script: &str) {
        let real = find(name).expect("the iptables programs");
        self.add(name, &format!("{script}\nexec {} \"$@\"", real.display()));
    }

    /// Makes a file that scripts look for.
    pub fn set(&self, name: &str) {
        fs::write(self.file(name), "").expect("a file");
    }

    /// Takes it away.
    pub fn unset(&self, name: &str) {
        fs::remove_file(self.file(name)).expect("a file");
    }

    /// How many lines scripts have written to a file.
    pub fn lines(&self, name: &str) -> usize {
        fs::read_to_string(self.file(name)).unwrap_or_default().lines().count()
    }

    /// Starts Ferrule in iptables mode with these programs before the real ones.
    pub fn start(&self, stand: &Stand, more: &[&str]) -> Program {
        let path = format!("PATH={}:{REAL_FOLDERS}", self.folder().display());
        start(stand, &[&path], &[&["--iptables-access=programs"], more].concat())
    }

    /// Waits until a script has written these process numbers, one a line.
    pub fn numbers(&self, file: &str, count: usize) -> Vec<u32> {
        until(|| {
            let text = fs::read_to_string(self.file(file)).unwrap_or_default();
            let numbers: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
            (numbers.len() >= count).then_some(numbers)
        })
    }
}

/// Starts Ferrule in iptables mode by way of `env`, with these arguments of its.
pub fn start(stand: &Stand, env: &[&str], more: &[&str]) -> Program {
    let folder = stand.folder().to_string_lossy().into_owned();
    let mut arguments = env.to_vec();
    arguments.extend([BINARY, "--manifests", &folder, "--hostname-override=node-a", "-v=2"]);
    arguments.extend(["--proxy-mode=iptables", "--cluster-cidr=10.244.0.0/16"]);
    arguments.extend(more);
    Program::start(stand.net.node(), Path::new("/usr/bin/env"), &arguments).expect("the program starts")
}

/// What the iptables programs are called.
pub fn names() -> Vec<String> {
    let mut names = Vec::new();
    for family in ["iptables", "ip6tables"] {
        for variant in ["", "-nft", "-legacy"] {
            names.extend(["", "-save", "-restore"].map(|suffix| format!("{family}{variant}{suffix}")));
        }
    }
    names
}

/// Whether a process is there and has not ended.
pub fn is_running(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
