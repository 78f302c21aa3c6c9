//! Running one of the two programs.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The two programs.
pub struct Pair {
    /// The real kube-proxy.
    pub theirs: Program,
    /// Ferrule.
    pub ours: Program,
}

/// A program and a place for its files.
pub struct Program {
    path: PathBuf,
    scratch: PathBuf,
}

/// What one run came to.
pub struct Answer {
    /// Whether the exit status was 0.
    pub accepted: bool,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// The configuration it wrote, if it did.
    pub written: Option<String>,
}

impl Answer {
    /// The last line of standard error that says why, for the report.
    pub fn reason(&self) -> String {
        let joined = self.stderr.trim_end().rsplit_once("command failed\"").map_or_else(
            || self.stderr.trim_end().lines().last().unwrap_or_default().to_owned(),
            |(_, rest)| rest.trim().to_owned(),
        );
        joined.replace('\n', " ").chars().take(220).collect()
    }
}

impl Program {
    /// A program that may write below `scratch`.
    pub fn new(path: &Path, scratch: &Path) -> Self {
        Self { path: path.to_owned(), scratch: scratch.to_owned() }
    }

    /// Runs it with `--write-config-to` and these arguments.
    pub fn write_config(&self, arguments: &[String]) -> io::Result<Answer> {
        let target = self.scratch.join("written.yaml");
        if target.exists() {
            std::fs::remove_file(&target)?;
        }
        let mut all = vec![format!("--write-config-to={}", target.display())];
        all.extend_from_slice(arguments);
        let mut answer = self.run(&all)?;
        answer.written = std::fs::read_to_string(&target).ok();
        Ok(answer)
    }

    /// Runs it with exactly these arguments.
    pub fn run(&self, arguments: &[String]) -> io::Result<Answer> {
        let output = Command::new(&self.path).args(arguments).current_dir(&self.scratch).output()?;
        Ok(Answer {
            accepted: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            written: None,
        })
    }
}
