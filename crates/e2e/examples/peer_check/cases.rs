//! Case files: a name, flags, the lines of a configuration file, and a reason if the two are known to differ.
//!
//! ```text
//! # name of the case
//! $ --flag=value --other          flags, separated by white space; "quotes" keep it
//! @raw                            the file has no apiVersion and kind put before it
//! | line of the file              without any such line there is no --config
//! = reason why the two differ
//! ```

use std::io;
use std::path::{Path, PathBuf};

/// One case.
#[derive(Debug, Default)]
pub struct Case {
    /// What it is about.
    pub name: String,
    /// Flags.
    pub flags: Vec<String>,
    /// The configuration file, if there is one.
    pub file: Option<String>,
    /// Why the two differ, if they do.
    pub reason: Option<String>,
    raw: bool,
}

const HEADER: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

/// All cases of a folder, in order of name: those in files that end in `.cases`, and one for each whole file below
/// `kubeadm`.
pub fn read_folder(folder: &Path) -> io::Result<Vec<Case>> {
    let mut cases = Vec::new();
    for path in files(folder, "cases")? {
        cases.extend(parse(&std::fs::read_to_string(path)?));
    }
    for path in files(&folder.join("kubeadm"), "yaml")? {
        let name = format!("kubeadm {}", path.file_stem().unwrap_or_default().display());
        let file = Some(std::fs::read_to_string(path)?);
        cases.push(Case {
            name,
            flags: vec!["--hostname-override=Node-A".to_owned()],
            file,
            ..Case::default()
        });
    }
    Ok(cases)
}

fn files(folder: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    paths.sort();
    Ok(paths)
}

fn parse(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("# ") {
            cases.push(Case { name: name.to_owned(), ..Case::default() });
        }
        let Some(case) = cases.last_mut() else { continue };
        if let Some(flags) = line.strip_prefix("$ ") {
            case.flags.extend(words(flags));
        } else if line == "@raw" {
            case.raw = true;
        } else if let Some(rest) = line.strip_prefix('|') {
            let file = case.file.get_or_insert_default();
            file.push_str(rest.strip_prefix(' ').unwrap_or(rest));
            file.push('\n');
        } else if let Some(reason) = line.strip_prefix("= ") {
            case.reason = Some(reason.to_owned());
        }
    }
    for case in cases.iter_mut().filter(|case| !case.raw) {
        case.file = case.file.take().map(|file| format!("{HEADER}{file}"));
    }
    cases
}

/// Words between white space; double quotes keep white space together and are dropped.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            c if c.is_whitespace() && !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}
