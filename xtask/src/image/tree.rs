//! The files of a layer, by path: what is in them, who may run them, nothing of the machine they come from.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Files by path, which has no slash at either end. A folder comes before what is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileTree(pub BTreeMap<String, Entry>);

/// A file, folder or link, always root's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub content: Content,
    pub mode: u32,
    /// Whether a process that runs it may have `CAP_NET_ADMIN`, if its container may.
    pub has_net_admin: bool,
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Folder,
    File(Vec<u8>),
    Link(String),
}

impl Entry {
    pub fn folder() -> Self {
        Self { content: Content::Folder, mode: 0o755, has_net_admin: false }
    }

    pub fn file(bytes: Vec<u8>) -> Self {
        Self { content: Content::File(bytes), mode: 0o644, has_net_admin: false }
    }

    pub fn program(bytes: Vec<u8>) -> Self {
        Self { mode: 0o755, ..Self::file(bytes) }
    }

    pub fn link(target: &str) -> Self {
        Self { content: Content::Link(target.to_owned()), mode: 0o777, has_net_admin: false }
    }

    /// A user who is not root gets no capability of the container's without this.
    pub fn with_net_admin(self) -> Self {
        Self { has_net_admin: true, ..self }
    }
}

impl FileTree {
    pub fn put(&mut self, path: &str, entry: Entry) {
        self.0.insert(path.to_owned(), entry);
    }

    /// Everything in a folder. Of permissions only the right to run a file is kept.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut tree = Self::default();
        tree.collect(folder, "")?;
        Ok(tree)
    }

    fn collect(&mut self, root: &Path, folder: &str) -> Result<()> {
        let full = root.join(folder);
        let listing = || format!("listing {}", full.display());
        for entry in fs::read_dir(&full).with_context(listing)? {
            let entry = entry.with_context(listing)?;
            let Ok(name) = entry.file_name().into_string() else {
                bail!("a name in {} is not UTF-8", full.display());
            };
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            self.put(&path, read_entry(&entry.path())?);
            if entry.file_type().with_context(listing)?.is_dir() {
                self.collect(root, &path)?;
            }
        }
        Ok(())
    }
}

fn read_entry(path: &Path) -> Result<Entry> {
    let reading = || format!("reading {}", path.display());
    let metadata = fs::symlink_metadata(path).with_context(reading)?;
    let kind = metadata.file_type();
    if kind.is_dir() {
        return Ok(Entry::folder());
    }
    if kind.is_symlink() {
        let target = fs::read_link(path).with_context(reading)?;
        return Ok(Entry::link(&target.to_string_lossy()));
    }
    if !kind.is_file() {
        bail!("{} is neither a file nor a folder nor a link", path.display());
    }
    let bytes = fs::read(path).with_context(reading)?;
    let is_program = metadata.permissions().mode() & 0o111 != 0;
    Ok(if is_program { Entry::program(bytes) } else { Entry::file(bytes) })
}
