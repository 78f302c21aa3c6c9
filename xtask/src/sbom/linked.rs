//! What cargo links into the program: names, versions, licences, checksums, and what needs what.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

const PACKAGE: &str = "ferrule";

/// The program and what is linked into it.
#[derive(Clone, Debug)]
pub struct Linked {
    pub version: String,
    pub components: Vec<Component>,
    /// The crates that the program itself names.
    pub direct: Vec<String>,
}

/// Something that is linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    pub name: String,
    pub version: String,
    /// A package URL, which is its identity too.
    pub purl: String,
    pub license: Option<String>,
    /// SHA-256 of the crate's archive.
    pub checksum: Option<String>,
    pub depends_on: Vec<String>,
}

impl Component {
    /// A library of the C toolchain.
    pub fn library(name: &str, version: &str) -> Self {
        let purl = format!("pkg:generic/{name}@{}", version.replace('+', "%2B"));
        let (name, version) = (name.to_owned(), version.to_owned());
        Self { name, version, purl, license: None, checksum: None, depends_on: Vec::new() }
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    dependencies: Vec<String>,
}

impl Linked {
    /// Asks cargo, for one target.
    pub fn by_cargo(root: &Path, target: &str) -> Result<Self> {
        let tree = cargo(
            root,
            &["tree", "-p", PACKAGE, "-e", "normal", "--prefix=none", "--format={p}", "--target", target],
        )?;
        let metadata = cargo(root, &["metadata", "--format-version=1", "--filter-platform", target])?;
        let lock = fs::read_to_string(root.join("Cargo.lock")).context("reading Cargo.lock")?;
        Self::of(&tree, &metadata, &lock)
    }

    /// `tree` decides what is linked; `metadata` and `lock` say more about it.
    pub fn of(tree: &str, metadata: &str, lock: &str) -> Result<Self> {
        let metadata: Metadata =
            serde_json::from_str(metadata).context("reading what cargo metadata printed")?;
        let linked: BTreeSet<_> = tree.lines().filter_map(name_and_version).collect();
        let is_linked = |package: &&Package| linked.contains(&(&*package.name, &*package.version));
        let packages: BTreeMap<_, _> =
            metadata.packages.iter().filter(is_linked).map(|package| (&*package.id, package)).collect();
        let depends_on = |id: &str| {
            let node = metadata.resolve.nodes.iter().find(|node| node.id == id);
            let dependencies = node.map_or(&[][..], |node| &node.dependencies).iter();
            let mut named: Vec<_> =
                dependencies.filter_map(|id| packages.get(&**id)).map(|package| purl(package)).collect();
            named.sort();
            named
        };
        let checksums = checksums(lock);
        let mut components: Vec<_> = packages
            .values()
            .map(|package| Component {
                name: package.name.clone(),
                version: package.version.clone(),
                purl: purl(package),
                license: package.license.clone(),
                checksum: checksums.get(&(&*package.name, &*package.version)).map(|sum| (*sum).to_owned()),
                depends_on: depends_on(&package.id),
            })
            .collect();
        components.sort_by(|a, b| a.purl.cmp(&b.purl));
        let Some(own) = components.iter().position(|component| component.name == PACKAGE) else {
            bail!("cargo does not know the package {PACKAGE}");
        };
        let own = components.remove(own);
        Ok(Self { version: own.version, components, direct: own.depends_on })
    }
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("cargo").args(arguments).arg("--locked").current_dir(root).output();
    let output = output.context("running cargo")?;
    if !output.status.success() {
        bail!("cargo {} failed: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).context("reading what cargo printed")
}

fn purl(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version.replace('+', "%2B"))
}

/// `name v1.2.3 (more)`
fn name_and_version(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split(' ');
    Some((words.next()?, words.next()?.strip_prefix('v')?))
}

/// From the lock file, where each package has `name`, `version` and, if it comes from a registry, `checksum`.
fn checksums(lock: &str) -> BTreeMap<(&str, &str), &str> {
    let packages = lock.split("[[package]]").skip(1);
    let checksum =
        |package| Some(((value(package, "name")?, value(package, "version")?), value(package, "checksum")?));
    packages.filter_map(checksum).collect()
}

/// Of a line `key = "value"`.
fn value<'a>(package: &'a str, key: &str) -> Option<&'a str> {
    let quoted = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
    quoted?.strip_suffix('"')
}
