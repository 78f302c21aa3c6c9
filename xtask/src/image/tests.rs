//! What other programs read in an archive, and that nothing of the machine or the moment gets into it.

use std::collections::BTreeMap;
use std::io::Read as _;

use flate2::read::GzDecoder;
use serde_json::Value;
use tempfile::TempDir;

use super::*;

const CREATED: &str = "1795011097";

/// A folder with a program in it.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("ferrule"), b"\x7fELF and more").expect("a program");
    folder
}

/// The archive that the command writes.
fn written(folder: &Path, more: &[&str]) -> Vec<u8> {
    let out = folder.join("image.tar");
    let program = format!("--program={}", folder.join("ferrule").display());
    let out_argument = format!("--out={}", out.display());
    let created = format!("--created={CREATED}");
    let mut words = vec![&*program, &*out_argument, &*created];
    words.extend(["--reference=registry.example/ferrule:0.1.0", "--revision=56e751b", "--arch=amd64"]);
    words.extend(more);
    run(&words).expect("an image");
    fs::read(out).expect("the archive")
}

fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut archive = tar::Archive::new(archive);
    let entries = archive.entries().expect("an archive").map(|entry| {
        let mut entry = entry.expect("an entry");
        let path = entry.path().expect("a path").display().to_string();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("its content");
        (path, bytes)
    });
    entries.collect()
}

fn json(files: &BTreeMap<String, Vec<u8>>, path: &str) -> Value {
    serde_json::from_slice(&files[path]).expect("JSON")
}

fn blob_path(descriptor: &Value) -> String {
    let digest = descriptor["digest"].as_str().expect("a digest");
    format!("blobs/{}", digest.replace(':', "/"))
}

fn unpacked(layer: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    GzDecoder::new(layer).read_to_end(&mut bytes).expect("gzip");
    bytes
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let (first, second) = (folder(), folder());
    assert_eq!(written(first.path(), &[]), written(second.path(), &[]));
    fs::write(second.path().join("ferrule"), b"another program").expect("a program");
    assert_ne!(written(first.path(), &[]), written(second.path(), &[]));
}

#[test]
fn every_digest_and_size_is_that_of_the_blob_it_names() {
    let folder = folder();
    let files = files(&written(folder.path(), &[]));
    let manifest_entry = &json(&files, "index.json")["manifests"][0];
    let manifest = json(&files, &blob_path(manifest_entry));
    let config = json(&files, &blob_path(&manifest["config"]));
    let layer = &manifest["layers"][0];
    for descriptor in [manifest_entry, &manifest["config"], layer] {
        let bytes = &files[&blob_path(descriptor)];
        assert_eq!(layer::Blob::new(bytes.clone()).digest, descriptor["digest"]);
        assert_eq!(descriptor["size"], bytes.len());
    }
    let unpacked = unpacked(&files[&blob_path(layer)]);
    assert_eq!(layer::Blob::new(unpacked).digest, config["rootfs"]["diff_ids"][0]);
    assert_eq!(config["history"].as_array().expect("a list").len(), 1);
}

/// `docker load` reads `manifest.json` and nothing else.
#[test]
fn docker_finds_the_same_blobs() {
    let folder = folder();
    let files = files(&written(folder.path(), &[]));
    let docker = &json(&files, "manifest.json")[0];
    let manifest = json(&files, &blob_path(&json(&files, "index.json")["manifests"][0]));
    assert_eq!(docker["Config"], blob_path(&manifest["config"]));
    assert_eq!(docker["Layers"][0], blob_path(&manifest["layers"][0]));
    assert_eq!(docker["RepoTags"][0], "registry.example/ferrule:0.1.0");
}

#[test]
fn the_program_has_two_names_and_may_have_one_capability() {
    let folder = folder();
    let files = files(&written(folder.path(), &[]));
    let manifest = json(&files, &blob_path(&json(&files, "index.json")["manifests"][0]));
    let layer = unpacked(&files[&blob_path(&manifest["layers"][0])]);
    let mut layer = tar::Archive::new(&layer[..]);
    let mut seen = Vec::new();
    for entry in layer.entries().expect("an archive") {
        let mut entry = entry.expect("an entry");
        let path = entry.path().expect("a path").display().to_string();
        let header = entry.header();
        let owner = (header.uid().expect("a user"), header.gid().expect("a group"));
        assert_eq!((owner, header.mtime().expect("a time")), ((0, 0), 0), "{path}");
        let link = header.link_name().expect("readable").map(|link| link.display().to_string());
        let extensions = entry.pax_extensions().expect("readable").into_iter().flatten();
        let capability = extensions
            .map(|extension| extension.expect("an extension"))
            .find(|extension| extension.key() == Ok("SCHILY.xattr.security.capability"))
            .map(|extension| extension.value_bytes().to_vec());
        seen.push((path, link, capability));
    }
    let net_admin = vec![0, 0, 0, 2, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let folders = ["etc/", "run/", "usr/", "usr/local/", "usr/local/bin/"];
    let mut expected: Vec<_> = folders.map(|path| (path.to_owned(), None, None)).to_vec();
    expected.push(("usr/local/bin/ferrule".to_owned(), None, Some(net_admin)));
    expected.push(("usr/local/bin/kube-proxy".to_owned(), Some("ferrule".to_owned()), None));
    assert_eq!(seen, expected);
}

#[test]
fn labels_say_what_it_is_and_the_user_is_left_to_the_manifest() {
    let folder = folder();
    let files = files(&written(folder.path(), &[]));
    let manifest = json(&files, &blob_path(&json(&files, "index.json")["manifests"][0]));
    let config = json(&files, &blob_path(&manifest["config"]));
    assert_eq!(manifest["annotations"], config["config"]["Labels"]);
    let label = |name: &str| manifest["annotations"][format!("org.opencontainers.image.{name}")].clone();
    assert_eq!(label("version"), "0.1.0");
    assert_eq!(label("revision"), "56e751b");
    assert_eq!(label("created"), "2026-11-18T14:11:37Z");
    assert_eq!((&config["created"], &config["architecture"]), (&label("created"), &"amd64".into()));
    assert_eq!(config["config"]["User"], Value::Null);
}

#[test]
fn what_is_added_is_a_layer_below_the_program() {
    let folder = folder();
    let added = folder.path().join("added");
    fs::create_dir_all(added.join("usr/sbin")).expect("folders");
    fs::write(added.join("usr/sbin/xtables-nft-multi"), b"iptables").expect("a file");
    std::os::unix::fs::symlink("xtables-nft-multi", added.join("usr/sbin/iptables")).expect("a link");
    let add = format!("--add={}", added.display());
    let archive = written(folder.path(), &[&add]);
    assert_eq!(archive, written(folder.path(), &[&add]));
    let files = files(&archive);
    let manifest = json(&files, &blob_path(&json(&files, "index.json")["manifests"][0]));
    assert_eq!(manifest["layers"].as_array().expect("a list").len(), 2);
    let layer = unpacked(&files[&blob_path(&manifest["layers"][0])]);
    let paths: Vec<_> = self::files(&layer).into_keys().collect();
    assert_eq!(paths, ["usr/", "usr/sbin/", "usr/sbin/iptables", "usr/sbin/xtables-nft-multi"]);
}
