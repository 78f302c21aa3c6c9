//! Which crate may depend on which, read from `cargo metadata`.
//!
//! Arrows are normal and build dependencies; tests may use what they need. A crate without a rule is a finding:
//! a new crate or a new arrow is a decision, made in [`RULES`] and written down.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::finding::Finding;

/// What one crate of the workspace may depend on.
struct Rule {
    name: &'static str,
    ours: &'static [&'static str],
    theirs: Theirs,
}

/// Crates of others that a crate may use.
enum Theirs {
    /// A pure crate: these and no others.
    Only(&'static [&'static str]),
    /// Anything but the Kubernetes client.
    Any,
    /// Anything.
    AndKubernetes,
}

const LIBRARIES: &[&str] = &[
    "ferrule-model",
    "ferrule-plan",
    "ferrule-watch",
    "ferrule-kernel",
    "ferrule-relay",
    "ferrule-backends",
    "ferrule-config",
];

const RULES: [Rule; 12] = [
    Rule { name: "ferrule-model", ours: &[], theirs: Theirs::Only(&["ipnet"]) },
    Rule { name: "ferrule-plan", ours: &["ferrule-model"], theirs: Theirs::Only(&["ipnet"]) },
    // The kernel crate for inotify on a folder of manifests.
    Rule { name: "ferrule-watch", ours: &["ferrule-model", "ferrule-kernel"], theirs: Theirs::AndKubernetes },
    Rule { name: "ferrule-kernel", ours: &[], theirs: Theirs::Any },
    // Sockets and endpoints, no Services: neither the model nor plans.
    Rule { name: "ferrule-relay", ours: &["ferrule-kernel"], theirs: Theirs::Any },
    Rule {
        name: "ferrule-backends",
        ours: &["ferrule-model", "ferrule-plan", "ferrule-kernel", "ferrule-relay"],
        theirs: Theirs::Any,
    },
    // The kernel crate for the file watch and the names of sandbox levels.
    Rule {
        name: "ferrule-config",
        ours: &["ferrule-model", "ferrule-plan", "ferrule-kernel"],
        theirs: Theirs::Any,
    },
    Rule { name: "ferrule", ours: LIBRARIES, theirs: Theirs::Any },
    Rule { name: "ferrule-testkit", ours: LIBRARIES, theirs: Theirs::Any },
    // Tests only. Builds the program once more for its tests; the testkit for an API server that runs outside of a virtual machine.
    Rule {
        name: "ferrule-e2e",
        ours: &["ferrule", "ferrule-kernel", "ferrule-testkit"],
        theirs: Theirs::Any,
    },
    // Linked statically for pods: nothing but the standard library.
    Rule { name: "ferrule-e2e-load", ours: &[], theirs: Theirs::Only(&[]) },
    Rule { name: "xtask", ours: &[], theirs: Theirs::Any },
];

/// One crate of the workspace, as far as arrows go.
#[derive(Debug)]
pub struct Package {
    name: String,
    /// The path of its `Cargo.toml`, relative to the top folder, and what it says.
    manifest: String,
    manifest_text: String,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    /// Absent for a normal dependency, else `dev` or `build`.
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<MetadataPackage>,
}

#[derive(Deserialize)]
struct MetadataPackage {
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

/// Asks cargo for the crates of the workspace at `root`.
pub fn workspace_packages(root: &Path) -> Result<Vec<Package>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let answer = Command::new(cargo)
        .args(["metadata", "--no-deps", "--locked", "--format-version", "1"])
        .current_dir(root)
        .output()
        .context("running cargo metadata")?;
    ensure!(answer.status.success(), "cargo metadata failed:\n{}", String::from_utf8_lossy(&answer.stderr));
    let metadata: Metadata =
        serde_json::from_slice(&answer.stdout).context("reading what cargo metadata said")?;
    metadata.packages.into_iter().map(|package| package.read(root)).collect()
}

impl MetadataPackage {
    fn read(self, root: &Path) -> Result<Package> {
        let manifest_text = std::fs::read_to_string(&self.manifest_path)
            .with_context(|| format!("reading {}", self.manifest_path))?;
        let manifest = Path::new(&self.manifest_path);
        let manifest = manifest.strip_prefix(root).unwrap_or(manifest).to_string_lossy().into_owned();
        Ok(Package { name: self.name, manifest, manifest_text, dependencies: self.dependencies })
    }
}

/// Dependencies that no rule allows.
pub fn findings(packages: &[Package]) -> Vec<Finding> {
    packages.iter().flat_map(Package::findings).collect()
}

impl Package {
    fn findings(&self) -> Vec<Finding> {
        let Some(rule) = RULES.iter().find(|rule| rule.name == self.name) else {
            let message =
                format!("`{}` has no rule; say in xtask/src/tidy/arrows.rs what it may use", self.name);
            return vec![Finding::new(&self.manifest, 1, message)];
        };
        let arrows = self.dependencies.iter().filter(|dependency| dependency.kind.as_deref() != Some("dev"));
        let objections = arrows.filter_map(|arrow| Some((arrow, rule.objection(&arrow.name)?)));
        objections.map(|(arrow, why)| Finding::new(&self.manifest, self.line_of(&arrow.name), why)).collect()
    }

    fn line_of(&self, dependency: &str) -> usize {
        let names_it =
            |line: &str| line.strip_prefix(dependency).is_some_and(|rest| rest.starts_with(['.', ' ', '=']));
        self.manifest_text.lines().position(names_it).map_or(1, |index| index + 1)
    }
}

impl Rule {
    /// Why this crate may not depend on that one, if so.
    fn objection(&self, dependency: &str) -> Option<String> {
        let name = self.name;
        if RULES.iter().any(|rule| rule.name == dependency) {
            let allowed = self.ours.contains(&dependency);
            return (!allowed)
                .then(|| format!("`{name}` must not use `{dependency}`; no arrow goes that way"));
        }
        match self.theirs {
            Theirs::Only(list) if !list.contains(&dependency) => {
                Some(format!("`{name}` is pure and must not use `{dependency}`; do it in another crate"))
            }
            Theirs::Any if is_kubernetes_client(dependency) => {
                Some(format!("only `ferrule-watch` may use `{dependency}`; go through its types"))
            }
            Theirs::Only(_) | Theirs::Any | Theirs::AndKubernetes => None,
        }
    }
}

fn is_kubernetes_client(dependency: &str) -> bool {
    dependency == "k8s-openapi" || dependency == "kube" || dependency.starts_with("kube-")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said about a crate with one dependency, on line 2 of its manifest.
    fn said(name: &str, dependency: &str, kind: Option<&str>) -> Vec<String> {
        let dependencies = vec![Dependency { name: dependency.to_owned(), kind: kind.map(str::to_owned) }];
        let manifest_text = format!("[dependencies]\n{dependency}.workspace = true\n");
        let package =
            Package { name: name.to_owned(), manifest: "Cargo.toml".to_owned(), manifest_text, dependencies };
        findings(&[package]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn arrows_that_point_back_are_found_at_their_line() {
        let expected = "Cargo.toml:2: `ferrule-model` must not use `ferrule-plan`; no arrow goes that way";
        assert_eq!(said("ferrule-model", "ferrule-plan", None), [expected]);
    }

    #[test]
    fn forbidden_arrows_are_found() {
        for (name, dependency) in [
            ("ferrule-plan", "ferrule-kernel"),
            ("ferrule-plan", "serde"),
            ("ferrule-model", "serde"),
            ("ferrule-watch", "ferrule-plan"),
            ("ferrule-kernel", "ferrule-model"),
            ("ferrule-relay", "ferrule-model"),
            ("ferrule-relay", "ferrule-plan"),
            ("ferrule-kernel", "ferrule-relay"),
            ("ferrule-backends", "ferrule-watch"),
            ("ferrule-backends", "k8s-openapi"),
            ("ferrule-backends", "ferrule-config"),
            ("ferrule-config", "ferrule-watch"),
            ("ferrule-config", "ferrule-backends"),
            ("ferrule-config", "ferrule"),
            ("ferrule", "kube-client"),
            ("ferrule-testkit", "ferrule"),
            ("ferrule", "ferrule-e2e"),
            ("ferrule-testkit", "ferrule-e2e"),
            ("ferrule-e2e", "kube"),
            ("ferrule", "ferrule-testkit"),
            ("ferrule-e2e", "ferrule-config"),
            ("xtask", "ferrule-model"),
            ("ferrule-new", "ipnet"),
        ] {
            assert_eq!(said(name, dependency, None).len(), 1, "{name} -> {dependency}");
        }
        assert_eq!(said("ferrule-plan", "cc", Some("build")).len(), 1);
    }

    #[test]
    fn allowed_arrows_and_test_dependencies_pass() {
        for (name, dependency) in [
            ("ferrule-model", "ipnet"),
            ("ferrule-plan", "ferrule-model"),
            ("ferrule-watch", "kube"),
            ("ferrule-backends", "ferrule-kernel"),
            ("ferrule-backends", "ferrule-relay"),
            ("ferrule-relay", "ferrule-kernel"),
            ("ferrule-config", "ferrule-plan"),
            ("ferrule", "ferrule-config"),
            ("ferrule", "ferrule-backends"),
            ("ferrule-testkit", "ferrule-plan"),
            ("ferrule-e2e", "ferrule"),
            ("xtask", "syn"),
        ] {
            assert!(said(name, dependency, None).is_empty(), "{name} -> {dependency}");
        }
        assert!(said("ferrule-plan", "proptest", Some("dev")).is_empty());
        assert!(said("ferrule-model", "ferrule-testkit", Some("dev")).is_empty());
    }
}
