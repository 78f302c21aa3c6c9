//! A layer: files as a tar archive, compressed, with the digests that a manifest names.

use std::io::Write as _;

use anyhow::Result;
use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

use super::tree::{Content, Entry, FileTree};
use crate::hex::hex;

/// The attribute by which Linux gives capabilities to a file, as archives name it.
const CAPABILITY: &str = "SCHILY.xattr.security.capability";
/// Linux's `CAP_NET_ADMIN`.
const NET_ADMIN: u32 = 12;

/// A packed layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    pub blob: Blob,
    /// The digest of the layer before compression.
    pub diff_id: String,
}

/// Bytes under their digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    pub bytes: Vec<u8>,
    /// `sha256:…`
    pub digest: String,
}

impl Blob {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { digest: digest(&bytes), bytes }
    }
}

impl Layer {
    /// Packs files in the order of their paths, without times: the same files give the same bytes.
    pub fn pack(files: &FileTree) -> Result<Self> {
        let archive = tar_of(files)?;
        // Neither a time nor the name of a system is in the header.
        let mut compressed = GzBuilder::new().write(Vec::new(), Compression::best());
        compressed.write_all(&archive)?;
        Ok(Self { blob: Blob::new(compressed.finish()?), diff_id: digest(&archive) })
    }
}

/// The files in the order of their paths, without times, all root's.
pub fn tar_of(files: &FileTree) -> Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    for (path, entry) in &files.0 {
        append(&mut builder, path, entry)?;
    }
    Ok(builder.into_inner()?)
}

fn append(builder: &mut Builder<Vec<u8>>, path: &str, entry: &Entry) -> Result<()> {
    if entry.has_net_admin {
        builder.append_pax_extensions([(CAPABILITY, &net_admin()[..])])?;
    }
    let mut header = Header::new_ustar();
    header.set_mode(entry.mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(0);
    match &entry.content {
        Content::Folder => {
            header.set_entry_type(EntryType::Directory);
            builder.append_data(&mut header, format!("{path}/"), &[][..])?;
        }
        Content::File(bytes) => {
            header.set_size(bytes.len() as u64);
            builder.append_data(&mut header, path, &bytes[..])?;
        }
        Content::Link(target) => {
            header.set_entry_type(EntryType::Symlink);
            builder.append_link(&mut header, path, target)?;
        }
    }
    Ok(())
}

/// `cap_net_admin=p`, in the form of `struct vfs_cap_data`, revision 2. Permitted and not effective: otherwise the kernel would refuse to
/// run the file at all in a container that may not have the capability; the program makes it effective itself.
fn net_admin() -> [u8; 20] {
    let mut data = [0; 20];
    data[..4].copy_from_slice(&0x0200_0000_u32.to_le_bytes());
    data[4..8].copy_from_slice(&(1_u32 << NET_ADMIN).to_le_bytes());
    data
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}
