//! The bill of materials as a CycloneDX document.

use anyhow::Result;
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::linked::{Component, Linked};
use crate::hex::hex;

/// What the document is about.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The built program's bytes.
    pub program: Vec<u8>,
    /// When the sources were committed.
    pub created: Timestamp,
}

/// The same program and components give the same document, its serial number included.
pub fn document(subject: &Subject, linked: &Linked) -> Result<Value> {
    let checksum = hex(&Sha256::digest(&subject.program));
    let own = format!("pkg:cargo/ferrule@{}", linked.version);
    let components: Vec<_> = linked.components.iter().map(component).collect();
    let mut dependencies = vec![json!({ "ref": own, "dependsOn": linked.direct })];
    dependencies.extend(
        linked
            .components
            .iter()
            .map(|component| json!({ "ref": component.purl, "dependsOn": component.depends_on })),
    );
    let serial = Sha256::digest(serde_json::to_vec(&json!([checksum, components, dependencies]))?);
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": format!("urn:uuid:{}", uuid(&serial)),
        "version": 1,
        "metadata": {
            "timestamp": subject.created.to_string(),
            "tools": { "components": [{ "type": "application", "name": "cargo xtask sbom", "version": linked.version }] },
            "component": {
                "type": "application", "bom-ref": own, "name": "ferrule", "version": linked.version, "purl": own,
                "licenses": [{ "expression": "Apache-2.0" }],
                "hashes": [{ "alg": "SHA-256", "content": checksum }],
            },
        },
        "components": components,
        "dependencies": dependencies,
    }))
}

fn component(component: &Component) -> Value {
    let mut described = json!({
        "type": "library",
        "bom-ref": component.purl,
        "name": component.name,
        "version": component.version,
        "purl": component.purl,
    });
    if let Some(license) = &component.license {
        // Old crates write `MIT/Apache-2.0`.
        described["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
    }
    if let Some(checksum) = &component.checksum {
        described["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    described
}

/// The form of a random UUID, made from a hash instead: version 8 is for that.
fn uuid(hash: &[u8]) -> String {
    let mut bytes = hash.iter().copied().take(16).collect::<Vec<_>>();
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = hex(&bytes);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}
