//! The host's settings as files, so that tests can keep them in memory.

use ferrule_kernel::sysctl::{self, SysctlError};

/// Settings by their absolute paths.
pub trait HostFiles {
    /// A file's content without the line end.
    fn read(&self, path: &str) -> Result<String, SysctlError>;
    /// Replaces a file's content.
    fn write(&mut self, path: &str, value: &str) -> Result<(), SysctlError>;
}

/// Those of this host.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFiles;

impl HostFiles for RealFiles {
    fn read(&self, path: &str) -> Result<String, SysctlError> {
        sysctl::read_file(path)
    }

    fn write(&mut self, path: &str, value: &str) -> Result<(), SysctlError> {
        sysctl::write_file(path, value)
    }
}
