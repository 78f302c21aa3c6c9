//! A directory of manifests in place of an API server: the same changes, from ordinary YAML and JSON files.
//!
//! [`ManifestFolder::wait`] waits for a change, [`ManifestFolder::read`] returns it. The objects of a file that is broken
//! for the moment stay as they were. Nothing is written, and no addresses are allocated: what a cluster would choose must
//! be in the files.

mod both_apis;
mod defaults;
mod folder_watch;
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

use ferrule_model::{NodeName, ObjectKind};

pub use problem::{FileProblem, ProblemKind};

use crate::{ChangeBatch, MassRemoval, api};
use folder_watch::FolderWatch;
use manifest::{Manifest, ManifestError, Object};
use objects::{FileObject, Objects};
use reader::{FileReader, FileState, ReadRequest, Stamp};

/// Two writes this close together may leave the same timestamps.
const TIMESTAMP_GRANULARITY: Duration = Duration::from_millis(50);

/// Kubernetes allows 63 characters.
const MAX_KIND_LENGTH: usize = 64;
/// Limit for the kinds that are remembered as unused; further ones are not reported.
const MAX_UNUSED_KINDS: usize = 100;

/// A directory of manifests, with the state last read from it.
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

/// The result of [`ManifestFolder::read`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// What differs from the last read.
    pub batch: ChangeBatch,
    /// Problems of files that were not reported before.
    pub problems: Vec<FileProblem>,
    /// The directory could not be listed. Everything stays as it was.
    pub is_folder_missing: bool,
    /// Set if the batch removes most of the known Services.
    pub mass_removal: Option<MassRemoval>,
}

/// Why a directory cannot be watched.
#[derive(Debug, thiserror::Error)]
#[error("watching the folder {} for manifests", path.display())]
pub struct OpenError {
    path: PathBuf,
    source: io::Error,
}

/// The state last read from a file.
#[derive(Debug, Default)]
struct File {
    /// `None` if the file may change again without a change of its stamp.
    stamp: Option<Stamp>,
    /// In the order of the file. A broken file keeps the objects it had.
    objects: Vec<FileObject>,
    /// Problems that were reported and still exist.
    reported: Vec<FileProblem>,
}

/// The manifests of the files that were parsed during this read.
type ParsedFiles = BTreeMap<OsString, Vec<Manifest>>;

impl ManifestFolder {
    /// Starts to watch a directory. Reads nothing yet.
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

    /// The watched directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until something may have changed; returns false on timeout. Changes of several files in quick succession are
    /// debounced into one.
    ///
    /// A change behind a symbolic link that leaves the directory is not noticed, so callers should also read
    /// periodically.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        self.watch.wait(timeout)
    }

    /// For callers that poll [`AsFd`]: consumes pending notifications; returns whether something may have changed.
    pub fn drain(&self) -> io::Result<bool> {
        self.watch.drain()
    }

    /// Reads what changed since the last call; everything, the first time.
    pub fn read(&mut self) -> Reading {
        let mut reading = Reading::default();
        match self.names() {
            Ok(names) => {
                let parsed = self.read_files(&names, &mut reading);
                self.apply(parsed, &mut reading);
            }
            Err(error) => {
                reading.is_folder_missing = true;
                reading.problems.push(unreadable(&self.path, &error));
            }
        }
        reading
    }

    /// The names of the manifests in the directory, sorted.
    fn names(&mut self) -> io::Result<BTreeSet<OsString>> {
        let renew = self.watch.renewal();
        let names = self.reader.names(&self.path, renew)?;
        Ok(names.into_iter().filter(|name| is_manifest(name)).collect())
    }

    /// Reads the files that changed, and drops those that were removed.
    fn read_files(&mut self, names: &BTreeSet<OsString>, reading: &mut Reading) -> ParsedFiles {
        let request = |name: &OsString| ReadRequest {
            path: self.path.join(name),
            known: self.files.get(name).and_then(|file| file.stamp),
        };
        let requests = names.iter().map(request).collect();
        let mut parsed = ParsedFiles::new();
        let mut present = BTreeSet::new();
        for (path, state) in self.reader.read(requests) {
            let Some(name) = path.file_name().map(OsStr::to_os_string) else { continue };
            let (stamp, manifests) = match state {
                // Removed since the directory was listed, or not a regular file.
                Ok(FileState::Absent) => continue,
                Ok(FileState::Unchanged) => {
                    present.insert(name);
                    continue;
                }
                Ok(FileState::Content { stamp, bytes }) => (Some(stamp), manifests_in(&path, &bytes)),
                Err(error) => (None, Err(unreadable(&path, &error))),
            };
            let stamp = stamp.filter(is_stamp_reliable);
            reading.problems.extend(self.record_file(&name, stamp, manifests.as_deref()));
            parsed.extend(manifests.ok().map(|manifests| (name.clone(), manifests)));
            present.insert(name);
        }
        self.files.retain(|name, _| present.contains(name));
        parsed
    }

    /// The manifests of a file that did not change.
    fn reread(&mut self, path: PathBuf) -> Vec<Manifest> {
        let read = self.reader.read(vec![ReadRequest { path, known: None }]);
        let manifests = read.into_iter().filter_map(|(path, state)| match state {
            Ok(FileState::Content { bytes, .. }) => manifests_in(&path, &bytes).ok(),
            Ok(FileState::Absent | FileState::Unchanged) | Err(_) => None,
        });
        manifests.flatten().collect()
    }

    /// Records the objects of a file, or keeps those it had if it is broken. Returns its new problems.
    fn record_file(
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
            file.objects = self.objects.in_file(name, manifests, &self.own_node);
        }
        let reported = std::mem::replace(&mut file.reported, problems.clone());
        problems.into_iter().filter(|problem| !reported.contains(problem)).collect()
    }

    /// Compares the objects of all files with those in effect, and turns the difference into changes.
    fn apply(&mut self, mut parsed: ParsedFiles, reading: &mut Reading) {
        let diff = self.objects.diff(self.files.values().flat_map(|file| &file.objects));
        let removed = diff.removed.iter().filter(|key| key.kind() == ObjectKind::Service).count();
        reading.mass_removal = MassRemoval::detect(ObjectKind::Service, removed, self.objects.services());
        let path = |name: &OsStr| self.path.join(name);
        reading.problems.extend(diff.duplicates.iter().map(|duplicate| FileProblem {
            file: path(&duplicate.object.file),
            line: Some(duplicate.object.line),
            kind: ProblemKind::Duplicate {
                object: duplicate.object.key.to_string(),
                effective_in: path(&duplicate.effective_in),
            },
        }));
        reading.problems.extend(diff.disagreements.iter().map(|object| FileProblem {
            file: path(&object.file),
            line: Some(object.line),
            kind: ProblemKind::EndpointsDisagree(object.key.to_string()),
        }));
        for object in diff.put {
            // An unchanged file is read again if its object takes effect only now, after a duplicate was removed.
            if !parsed.contains_key(&*object.file) {
                let manifests = self.reread(self.path.join(&*object.file));
                parsed.insert(object.file.to_os_string(), manifests);
            }
            let manifest = parsed.get(&*object.file).and_then(|manifests| manifests.get(object.index));
            if let Some(manifest) = manifest.filter(|manifest| manifest.digest == object.digest) {
                let converted = manifest.object.convert(&self.own_node);
                reading.batch.changes.extend(converted.change);
                reading.batch.diagnostics.extend(converted.diagnostics);
                self.objects.set_effective(object);
            }
        }
        let deletions = diff.removed.iter().filter_map(|key| self.objects.remove(key));
        reading.batch.changes.extend(deletions);
    }

    fn problems_of(&mut self, name: &OsStr, manifests: &[Manifest]) -> Vec<FileProblem> {
        let mut problems = Vec::new();
        for Manifest { line, object, .. } in manifests {
            let kind = match object {
                Object::Other(kind) if self.is_new_unused_kind(kind) => {
                    ProblemKind::UnusedKind(shortened(kind))
                }
                Object::Service(service) if lacks_cluster_ip(service) => {
                    let metadata = &service.metadata;
                    ProblemKind::NoClusterIp(format!("{}/{}", metadata.namespace, metadata.name))
                }
                _ => continue,
            };
            problems.push(FileProblem { file: self.path.join(name), line: Some(*line), kind });
        }
        problems
    }
}

impl ManifestFolder {
    /// Whether a kind is seen for the first time, up to a limit.
    fn is_new_unused_kind(&mut self, kind: &str) -> bool {
        self.unused_kinds.len() < MAX_UNUSED_KINDS && self.unused_kinds.insert(shortened(kind))
    }
}

fn shortened(kind: &str) -> String {
    kind.chars().take(MAX_KIND_LENGTH).collect()
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

/// Whether the next write to the file is certain to change its stamp.
fn is_stamp_reliable(stamp: &Stamp) -> bool {
    let (seconds, nanoseconds) = &stamp.changed;
    let since_epoch =
        || Some(Duration::new(u64::try_from(*seconds).ok()?, u32::try_from(*nanoseconds).ok()?));
    let changed = since_epoch().map(|elapsed| SystemTime::UNIX_EPOCH + elapsed);
    changed.and_then(|changed| changed.elapsed().ok()).is_some_and(|age| age > TIMESTAMP_GRANULARITY)
}

fn manifests_in(path: &Path, bytes: &[u8]) -> Result<Vec<Manifest>, FileProblem> {
    let broken = |error: ManifestError| FileProblem {
        file: path.to_path_buf(),
        line: Some(error.line),
        kind: ProblemKind::Broken(error.problem),
    };
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + String::from_utf8_lossy(&bytes[..error.valid_up_to()]).matches('\n').count();
        broken(ManifestError { line, problem: "bytes that are not UTF-8".into() })
    })?;
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    let mut manifests = if is_json { manifest::json(text) } else { manifest::yaml(text) }.map_err(broken)?;
    for manifest in &mut manifests {
        manifest.object.apply_defaults();
    }
    Ok(manifests)
}

fn unreadable(path: &Path, error: &io::Error) -> FileProblem {
    FileProblem { file: path.to_path_buf(), line: None, kind: ProblemKind::Unreadable(error.to_string()) }
}
