//! Container images as archives, written without a daemon: the same input gives the same bytes.
//!
//! An archive is an OCI layout (`ctr image import`, `skopeo copy oci-archive:`) and a Docker archive (`docker load`) at once: both name
//! the same blobs. `layer` packs files, `manifest` describes them, `archive` puts everything into one file. What goes into an image is
//! decided here and in `scripts/image`.

mod archive;
mod layer;
mod manifest;
mod tree;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::arguments::{Arguments, seconds_since_1970};

use layer::Layer;
use manifest::Description;
use tree::{Entry, FileTree};

/// Where manifests of kube-proxy expect the program.
const FOLDER: &str = "usr/local/bin";
const NAMES: [&str; 7] = ["program", "out", "reference", "created", "revision", "arch", "add"];

/// Writes an image with the program, and what `--add` holds, and prints its digest.
pub fn run(words: &[&str]) -> Result<()> {
    let arguments = Arguments::parse(words, &NAMES)?;
    let program = arguments.required("program")?;
    let program = fs::read(program).with_context(|| format!("reading the program {program}"))?;
    let mut layers = Vec::new();
    if let Some(folder) = arguments.optional("add") {
        layers.push(Layer::pack(&FileTree::read(Path::new(folder))?)?);
    }
    layers.push(Layer::pack(&program_tree(program))?);
    let description = Description {
        reference: arguments.required("reference")?,
        created: seconds_since_1970(arguments.required("created")?)?,
        revision: arguments.required("revision")?,
        architecture: arguments.required("arch")?,
        with_iptables: arguments.optional("add").is_some(),
    };
    let image = manifest::describe(&description, &layers)?;
    let out = arguments.required("out")?;
    let bytes = archive::pack(&image, &layers)?;
    fs::write(out, &bytes).with_context(|| format!("writing {out}"))?;
    println!("{}  {}  {} bytes", image.manifest.digest, description.reference, bytes.len());
    Ok(())
}

/// The program under both of its names.
fn program_tree(program: Vec<u8>) -> FileTree {
    let mut tree = FileTree::default();
    // A place for the lock of iptables and the sockets of userspace mode, and for what kubelet mounts.
    for folder in ["etc", "run", "usr", "usr/local", FOLDER] {
        tree.put(folder, Entry::folder());
    }
    tree.put(&format!("{FOLDER}/ferrule"), Entry::program(program).with_net_admin());
    tree.put(&format!("{FOLDER}/kube-proxy"), Entry::link("ferrule"));
    tree
}

#[cfg(test)]
mod tests;
