//! What describes an image: its configuration, its manifest, and the index of the archive.

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::layer::{Blob, Layer};

const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// What is said about an image.
#[derive(Clone, Debug)]
pub struct Description<'a> {
    /// Repository and tag.
    pub reference: &'a str,
    /// When the sources were committed, not when it is built.
    pub created: Timestamp,
    /// The commit.
    pub revision: &'a str,
    /// As Go names it.
    pub architecture: &'a str,
    /// Whether the programs of iptables are in it.
    pub with_iptables: bool,
}

/// A described image.
#[derive(Clone, Debug)]
pub struct Image {
    pub reference: String,
    pub config: Blob,
    pub manifest: Blob,
    /// `index.json` of an OCI layout.
    pub index: Vec<u8>,
}

/// Describes an image of these layers.
pub fn describe(description: &Description<'_>, layers: &[Layer]) -> Result<Image> {
    let (_, tag) = description.reference.rsplit_once(':').context("--reference= has no :tag")?;
    let labels = labels(description, tag);
    let config = blob(&config(description, &labels, layers))?;
    let described = layers.iter().map(|layer| descriptor(LAYER, &layer.blob)).collect::<Vec<_>>();
    let manifest = blob(&json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor(CONFIG, &config),
        "layers": described,
        "annotations": labels,
    }))?;
    let mut entry = descriptor(MANIFEST, &manifest);
    entry["platform"] = json!({ "architecture": description.architecture, "os": "linux" });
    // The first name is what containerd stores the image under, the second what skopeo selects by.
    entry["annotations"] = json!({
        "io.containerd.image.name": description.reference,
        "org.opencontainers.image.ref.name": tag,
    });
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [entry] });
    let index = serde_json::to_vec(&index)?;
    Ok(Image { reference: description.reference.to_owned(), config, manifest, index })
}

fn labels(description: &Description<'_>, tag: &str) -> Value {
    let flavour = if description.with_iptables { ", with the programs of iptables" } else { "" };
    json!({
        "org.opencontainers.image.title": "ferrule",
        "org.opencontainers.image.description": format!("Ferrule, a drop-in for kube-proxy{flavour}"),
        "org.opencontainers.image.version": tag,
        "org.opencontainers.image.revision": description.revision,
        "org.opencontainers.image.created": description.created.to_string(),
        "org.opencontainers.image.licenses": if description.with_iptables { "Apache-2.0 AND GPL-2.0-or-later" } else { "Apache-2.0" },
    })
}

/// The user is left to the manifest, so it is root: the DaemonSets this image is swapped into name none and rely on it.
fn config(description: &Description<'_>, labels: &Value, layers: &[Layer]) -> Value {
    let created = description.created.to_string();
    let diff_ids = layers.iter().map(|layer| &layer.diff_id).collect::<Vec<_>>();
    let history = layers.iter().map(|_| json!({ "created": created, "created_by": "cargo xtask image" }));
    json!({
        "created": created,
        "architecture": description.architecture,
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/local/bin/ferrule"],
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "WorkingDir": "/",
            "Labels": labels,
        },
        "rootfs": { "type": "layers", "diff_ids": diff_ids },
        "history": history.collect::<Vec<_>>(),
    })
}

fn descriptor(media_type: &str, blob: &Blob) -> Value {
    json!({ "mediaType": media_type, "digest": blob.digest, "size": blob.bytes.len() })
}

fn blob(value: &Value) -> Result<Blob> {
    Ok(Blob::new(serde_json::to_vec(value)?))
}
