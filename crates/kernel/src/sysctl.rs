//! Kernel settings under `/proc/sys`, and the few that are files elsewhere.

use std::path::PathBuf;
use std::{fs, io};

/// A setting that could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SysctlError {
    /// Reading failed.
    #[error("reading {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Writing failed.
    #[error("setting {} to {value}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The new value.
        value: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl SysctlError {
    /// Whether we lack the permission.
    pub fn is_not_permitted(&self) -> bool {
        let (Self::Read { source, .. } | Self::Write { source, .. }) = self;
        source.kind() == io::ErrorKind::PermissionDenied
    }
}

/// The value of a setting, named by its path (`net/ipv4/ip_forward`).
pub fn read(name: &str) -> Result<String, SysctlError> {
    read_file(path(name))
}

/// The value of a setting that is a file anywhere (`/sys/module/nf_conntrack/parameters/hashsize`).
pub fn read_file(path: impl Into<PathBuf>) -> Result<String, SysctlError> {
    let path = path.into();
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text.trim_end().to_owned()),
        Err(source) => Err(SysctlError::Read { path, source }),
    }
}

/// Sets a value unless the setting has it already: the file may be read-only.
pub fn ensure(name: &str, value: &str) -> Result<(), SysctlError> {
    if read(name).is_ok_and(|now| now == value) {
        return Ok(());
    }
    write_file(path(name), value)
}

/// Sets a value of a setting that is a file anywhere.
pub fn write_file(path: impl Into<PathBuf>, value: &str) -> Result<(), SysctlError> {
    let path = path.into();
    fs::write(&path, value).map_err(|source| SysctlError::Write { path, value: value.to_owned(), source })
}

fn path(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(name.trim_start_matches('/'))
}
