//! One file that is an OCI layout and a Docker archive at once.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::json;

use super::layer::{Blob, Layer, tar_of};
use super::manifest::Image;
use super::tree::{Entry, FileTree};

/// Puts the blobs, the index of the OCI layout and Docker's manifest into one archive.
pub fn pack(image: &Image, layers: &[Layer]) -> Result<Vec<u8>> {
    let mut files = FileTree::default();
    files.put("blobs", Entry::folder());
    files.put("blobs/sha256", Entry::folder());
    let blobs = layers.iter().map(|layer| &layer.blob).chain([&image.config, &image.manifest]);
    for (path, bytes) in blobs.map(|blob| (path_of(blob), &blob.bytes)).collect::<BTreeMap<_, _>>() {
        files.put(&path, Entry::file(bytes.clone()));
    }
    files.put("index.json", Entry::file(image.index.clone()));
    let docker = json!([{
        "Config": path_of(&image.config),
        "RepoTags": [image.reference],
        "Layers": layers.iter().map(|layer| path_of(&layer.blob)).collect::<Vec<_>>(),
    }]);
    files.put("manifest.json", Entry::file(serde_json::to_vec(&docker)?));
    files.put("oci-layout", Entry::file(br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()));
    tar_of(&files)
}

fn path_of(blob: &Blob) -> String {
    format!("blobs/{}", blob.digest.replacen(':', "/", 1))
}
