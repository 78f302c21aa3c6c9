//! The text files of the repository, read once and handed to every check.
//!
//! Walks the folders rather than asking git, so that it works in an unpacked archive too. Leaves out what a
//! build or a fuzzing run makes, symbolic links, and files that are not text.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Nothing in them was written by a person; `.git` is a file in a worktree.
const SKIPPED: [&str; 5] = [".git", "target", "fuzz/target", "fuzz/corpus", "fuzz/artifacts"];

/// One text file, its path relative to the top folder and written with `/`.
#[derive(Clone, Debug)]
pub struct SourceFile {
    pub path: String,
    pub text: String,
}

impl SourceFile {
    /// Rust source of any kind.
    pub fn is_rust(&self) -> bool {
        self.extension() == Some("rs")
    }

    /// What follows the last dot of the file's name.
    pub fn extension(&self) -> Option<&str> {
        Path::new(&self.path).extension()?.to_str()
    }

    /// The lines with their numbers, from 1.
    pub fn numbered_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// Every text file under `root`, in the order of their paths.
pub fn source_files(root: &Path) -> Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    collect(root, "", &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn collect(root: &Path, folder: &str, files: &mut Vec<SourceFile>) -> Result<()> {
    let full = root.join(folder);
    for entry in fs::read_dir(&full).with_context(|| format!("listing {}", full.display()))? {
        let entry = entry.with_context(|| format!("listing {}", full.display()))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        if SKIPPED.contains(&path.as_str()) {
            continue;
        }
        let kind = entry.file_type().with_context(|| format!("reading the type of {path}"))?;
        if kind.is_dir() {
            // cargo marks its build folder with this tag, whatever the folder is called.
            if !entry.path().join("CACHEDIR.TAG").exists() {
                collect(root, &path, files)?;
            }
        } else if kind.is_file() {
            let bytes = fs::read(entry.path()).with_context(|| format!("reading {path}"))?;
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(SourceFile { path, text });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_and_what_a_build_made_is_not() {
        let root = std::env::temp_dir().join(format!("ferrule-tree-{}", std::process::id()));
        let files: [(&str, &[u8]); 7] = [
            ("b/c.rs", b"//! Text.\n"),
            (".ci/run", b"#!/bin/sh\n"),
            (".git", b"gitdir: elsewhere\n"),
            ("picture.png", b"\xff\xfe\x00"),
            ("build/CACHEDIR.TAG", b""),
            ("build/made.rs", b""),
            ("fuzz/corpus/a", b"text"),
        ];
        for (path, content) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("every file has a folder")).expect("making a folder");
            fs::write(path, content).expect("writing a file");
        }
        let found =
            source_files(&root).map(|files| files.into_iter().map(|file| file.path).collect::<Vec<_>>());
        fs::remove_dir_all(&root).expect("removing what the test made");
        assert_eq!(found.expect("the folder can be read"), [".ci/run", "b/c.rs"]);
    }
}
