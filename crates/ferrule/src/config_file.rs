//! Reads the configuration file: whatever is found under its name, reading ends, and takes little memory.
//!
//! Noticing that it changed is [`crate::config_watch`]'s work.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, fstat, open};

/// No ConfigMap can be larger.
pub const MAX_BYTES: u64 = 1 << 20;

/// Why a file cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The system says so.
    #[error("{0}")]
    System(io::ErrorKind),
    /// A pipe, a socket, a device.
    #[error("it is not a regular file")]
    NotAFile,
    /// It has no end, or a distant one.
    #[error("it is larger than {MAX_BYTES} bytes")]
    TooLarge,
}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Self {
        Self::System(error.kind())
    }
}

/// The content of the file a process starts with. A pipe will do, as shells make one for `<(…)`: whoever starts the process
/// waits for it.
pub fn read_at_start(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let too_large = || io::Error::other(Unreadable::TooLarge);
    bounded(File::open(path)?)?.ok_or_else(too_large)
}

/// The content of the file now. Only of a regular file, since whoever opens a pipe waits for its other end.
pub fn read(path: &Path) -> Result<Vec<u8>, Unreadable> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file: OwnedFd = open(path, flags, Mode::empty()).map_err(io::Error::from)?;
    match FileType::from_raw_mode(fstat(&file).map_err(io::Error::from)?.st_mode) {
        FileType::RegularFile => bounded(file.into())?.ok_or(Unreadable::TooLarge),
        FileType::Directory => Err(Unreadable::System(io::ErrorKind::IsADirectory)),
        _ => Err(Unreadable::NotAFile),
    }
}

fn bounded(file: File) -> io::Result<Option<Vec<u8>>> {
    let mut content = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut content)?;
    Ok(Some(content).filter(|content| content.len() as u64 <= MAX_BYTES))
}
