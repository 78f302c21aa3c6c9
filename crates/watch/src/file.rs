//! A watched folder of manifests in place of an API server: the same changes, from ordinary YAML and JSON files.
//!
//! [`ManifestFolder::wait`] tells that something changed, [`ManifestFolder::read`] what. A file that is broken for now
//! costs nothing: its objects stay as they were. It never writes, and it allocates no addresses: what a cluster would
//! have chosen must stand in the files.

mod defaults;
mod inotify;
pub mod manifest;
mod objects;
mod problem;
mod reader;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ferrule_model::{Change, Diagnostic, NodeName, ObjectKind};

pub use problem::{FileProblem, Wrong};

use crate::{MassRemoval, api};
use inotify::FolderWatch;
use manifest::{Fault, Manifest, Object};
use objects::{Held, Objects};
use reader::{FileReader, Found, Stamp, Wanted};

/// A file that was written this recently may be written again without its times showing it.
const CLOCK_GRAIN: Duration = Duration::from_millis(50);

/// The longest kind that Kubernetes allows has 63 characters.
const MAX_KIND: usize = 64;
/// More kinds that a proxy does not read are not noted.
const MAX_UNUSED_KINDS: usize = 100;

/// A folder of manifests, and what was last read from it.
#[derive(Debug)]
pub struct ManifestFolder {
    path: PathBuf,
    own_node: NodeName,
    watch: FolderWatch,
    reader: FileReader,
    files: BTreeMap<OsString, File>,
    objects: Objects,
    unused_kinds: BTreeSet<String>,
}

/// What a reading brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// What differs from the last reading.
    pub changes: Vec<Change>,
    /// What of the objects that differ could not be used.
    pub diagnostics: Vec<Diagnostic>,
    /// What is wrong with the files and was not told before.
    pub problems: Vec<FileProblem>,
    /// Whether the folder could not be listed.
    pub is_folder_missing: bool,
    /// Most of the Services that were known are gone.
    pub mass_removal: Option<MassRemoval>,
}

/// The folder cannot be watched.
#[derive(Debug, thiserror::Error)]
#[error("watching the folder {} for manifests", path.display())]
pub struct OpenError {
    path: PathBuf,
    source: io::Error,
}

/// What was last read from a file.
#[derive(Debug, Default)]
struct File {
    /// How the file was when it was read, unless it may have changed since without showing it.
    stamp: Option<Stamp>,
    /// Its objects, in its order. A broken file keeps those it had.
    held: Vec<Held>,
    /// What was wrong with it, so that it is told once.
    told: Vec<FileProblem>,
}

/// The manifests of those files that were read this time.
type Fresh = BTreeMap<OsString, Vec<Manifest>>;

impl ManifestFolder {
    /// Begins to watch a folder. Nothing is read yet.
    pub fn open(path: impl Into<PathBuf>, own_node: NodeName) -> Result<Self, OpenError> {
        let path = path.into();
        let watch = match FolderWatch::new(&path) {
            Ok(watch) => watch,
            Err(source) => return Err(OpenError { path, source }),
        };
        Ok(Self {
            path,
            own_node,
            watch,
            reader: FileReader::default(),
            files: BTreeMap::new(),
            objects: Objects::default(),
            unused_kinds: BTreeSet::new(),
        })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until something may have changed, or until the time is over; says which. Changes of several files in a row
    /// are told once.
    ///
    /// A link's target outside the folder changes unseen: who must know reads now and then without being told.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        self.watch.wait(timeout)
    }

    /// For those who wait with [`AsFd`]: takes what the descriptor has, and says whether something may have changed.
    pub fn drain(&self) -> io::Result<bool> {
        self.watch.drain()
    }

    /// Reads what has changed since the last time; everything, the first time.
    pub fn read(&mut self) -> Reading {
        let mut reading = Reading::default();
        match self.names() {
            Ok(names) => {
                let fresh = self.read_files(&names, &mut reading);
                self.settle(fresh, &mut reading);
            }
            // Without a folder everything stays as it was.
            Err(error) => {
                reading.is_folder_missing = true;
                reading.problems.push(unreadable(&self.path, &error));
            }
        }
        reading
    }

    /// The manifests in the folder, in order of their names.
    fn names(&mut self) -> io::Result<BTreeSet<OsString>> {
        let renew = self.watch.renewal();
        let names = self.reader.names(&self.path, renew)?;
        Ok(names.into_iter().filter(|name| is_manifest(name)).collect())
    }

    /// Reads the files that have changed, and forgets those that have gone.
    fn read_files(&mut self, names: &BTreeSet<OsString>, reading: &mut Reading) -> Fresh {
        let wanted = |name: &OsString| Wanted {
            path: self.path.join(name),
            known: self.files.get(name).and_then(|file| file.stamp),
        };
        let wanted = names.iter().map(wanted).collect();
        let mut fresh = Fresh::new();
        let mut here = BTreeSet::new();
        for (path, found) in self.reader.read(wanted) {
            let Some(name) = path.file_name().map(OsStr::to_os_string) else { continue };
            let (stamp, manifests) = match found {
                // Gone between the look into the folder and the look at the file, or no file at all.
                Ok(Found::Nothing) => continue,
                Ok(Found::Unchanged) => {
                    here.insert(name);
                    continue;
                }
                Ok(Found::File { stamp, bytes }) => (Some(stamp), manifests_in(&path, &bytes)),
                Err(error) => (None, Err(unreadable(&path, &error))),
            };
            reading.problems.extend(self.take_file(&name, stamp.filter(has_settled), manifests.as_deref()));
            fresh.extend(manifests.ok().map(|manifests| (name.clone(), manifests)));
            here.insert(name);
        }
        self.files.retain(|name, _| here.contains(name));
        fresh
    }

    /// The manifests of a file that has not changed.
    fn read_again(&mut self, path: PathBuf) -> Vec<Manifest> {
        let read = self.reader.read(vec![Wanted { path, known: None }]);
        let manifests = read.into_iter().filter_map(|(path, found)| match found {
            Ok(Found::File { bytes, .. }) => manifests_in(&path, &bytes).ok(),
            Ok(Found::Nothing | Found::Unchanged) | Err(_) => None,
        });
        manifests.flatten().collect()
    }

    /// Takes in what a file holds now, or keeps what it held; tells what is wrong with it that was not told before.
    fn take_file(
        &mut self,
        name: &OsStr,
        stamp: Option<Stamp>,
        manifests: Result<&[Manifest], &FileProblem>,
    ) -> Vec<FileProblem> {
        let problems = match manifests {
            Ok(manifests) => self.problems_of(name, manifests),
            Err(problem) => vec![problem.clone()],
        };
        let file = self.files.entry(name.to_os_string()).or_default();
        file.stamp = stamp;
        if let Ok(manifests) = manifests {
            file.held = self.objects.held_by(name, manifests, &self.own_node);
        }
        let told = std::mem::replace(&mut file.told, problems.clone());
        problems.into_iter().filter(|problem| !told.contains(problem)).collect()
    }

    /// Finds out what the files say together, and what of it is new.
    fn settle(&mut self, mut fresh: Fresh, reading: &mut Reading) {
        let all = self.files.values().flat_map(|file| &file.held);
        let news = self.objects.news(all);
        let gone = news.gone.iter().filter(|key| key.kind() == ObjectKind::Service).count();
        reading.mass_removal = MassRemoval::of(ObjectKind::Service, gone, self.objects.services());
        let path = |name: &OsStr| self.path.join(name);
        reading.problems.extend(news.duplicates.iter().map(|duplicate| FileProblem {
            file: path(&duplicate.held.file),
            line: Some(duplicate.held.line),
            what: Wrong::Duplicate {
                object: duplicate.held.key.to_string(),
                counts: path(&duplicate.counts),
            },
        }));
        for held in news.put {
            // A file that has not changed is read again if its object counts only now.
            if !fresh.contains_key(&*held.file) {
                let again = self.read_again(self.path.join(&*held.file));
                fresh.insert(held.file.to_os_string(), again);
            }
            let manifests = fresh.get(&*held.file);
            if let Some(manifest) = manifests
                .and_then(|manifests| manifests.get(held.at))
                .filter(|found| found.digest == held.digest)
            {
                let converted = manifest.object.convert(&self.own_node);
                reading.changes.extend(converted.change);
                reading.diagnostics.extend(converted.diagnostics);
                self.objects.count(held);
            }
        }
        reading.changes.extend(news.gone.iter().filter_map(|key| self.objects.forget(key)));
    }

    fn problems_of(&mut self, name: &OsStr, manifests: &[Manifest]) -> Vec<FileProblem> {
        let mut problems = Vec::new();
        for Manifest { line, object, .. } in manifests {
            let what = match object {
                Object::Other(kind) if self.is_new_kind(kind) => Wrong::UnusedKind(shortened(kind)),
                Object::Service(service) if lacks_cluster_ip(service) => {
                    let metadata = &service.metadata;
                    Wrong::NoClusterIp(format!("{}/{}", metadata.namespace, metadata.name))
                }
                _ => continue,
            };
            problems.push(FileProblem { file: self.path.join(name), line: Some(*line), what });
        }
        problems
    }
}

impl ManifestFolder {
    /// Whether a kind that is of no use is met for the first time. Only so many are remembered.
    fn is_new_kind(&mut self, kind: &str) -> bool {
        self.unused_kinds.len() < MAX_UNUSED_KINDS && self.unused_kinds.insert(shortened(kind))
    }
}

/// As much of a kind as tells it from others.
fn shortened(kind: &str) -> String {
    kind.chars().take(MAX_KIND).collect()
}

impl AsFd for ManifestFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

fn lacks_cluster_ip(service: &api::Service) -> bool {
    service.spec.cluster_ip.is_empty() && service.spec.kind != "ExternalName"
}

fn is_manifest(name: &OsStr) -> bool {
    let extension = Path::new(name).extension().and_then(OsStr::to_str);
    !name.as_encoded_bytes().starts_with(b".") && matches!(extension, Some("yaml" | "yml" | "json"))
}

/// Whether the next change of the file is sure to change its stamp.
fn has_settled(stamp: &Stamp) -> bool {
    let (seconds, nanoseconds) = &stamp.changed;
    let since_epoch =
        || Some(Duration::new(u64::try_from(*seconds).ok()?, u32::try_from(*nanoseconds).ok()?));
    let changed = since_epoch().map(|elapsed| SystemTime::UNIX_EPOCH + elapsed);
    changed.and_then(|changed| changed.elapsed().ok()).is_some_and(|age| age > CLOCK_GRAIN)
}

fn manifests_in(path: &Path, bytes: &[u8]) -> Result<Vec<Manifest>, FileProblem> {
    let broken = |fault: Fault| FileProblem {
        file: path.to_path_buf(),
        line: Some(fault.line),
        what: Wrong::Broken(fault.problem),
    };
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + String::from_utf8_lossy(&bytes[..error.valid_up_to()]).matches('\n').count();
        broken(Fault { line, problem: "bytes that are no UTF-8".into() })
    })?;
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    let mut manifests = if is_json { manifest::json(text) } else { manifest::yaml(text) }.map_err(broken)?;
    for manifest in &mut manifests {
        manifest.object.fill_in();
    }
    Ok(manifests)
}

fn unreadable(path: &Path, error: &io::Error) -> FileProblem {
    FileProblem { file: path.to_path_buf(), line: None, what: Wrong::Unreadable(error.to_string()) }
}
