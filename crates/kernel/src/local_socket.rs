//! A listening unix socket in a directory that is one user's alone.
//!
//! The socket of a process that was killed is replaced; that of a process that lives is left to it. Of two processes that start
//! together just one gets the path.

use std::fs::{DirBuilder, File, Permissions, set_permissions, symlink_metadata};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// The rights of other users.
const OTHERS: u32 = 0o077;
const BACKLOG: i32 = 64;

/// A path at which this process listens. It goes with this value.
#[derive(Debug)]
pub struct ListeningPath {
    path: PathBuf,
    /// Of the file, so that another process's is not removed.
    inode: u64,
}

/// Why a path cannot be listened at.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another process lives and listens there, or is about to.
    #[error("another process listens there")]
    InUse,
    /// The file is not a socket.
    #[error("the file is not a socket, so it is left alone")]
    NotASocket,
    /// The system's answer.
    #[error(transparent)]
    Failed(#[from] io::Error),
}

impl From<Errno> for ListenError {
    fn from(error: Errno) -> Self {
        Self::Failed(error.into())
    }
}

/// Makes a directory that no other user can enter, unless it is there. Fails if others can.
pub fn make_private_directory(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let found = symlink_metadata(directory)?;
    let is_private = found.is_dir() && found.mode() & OTHERS == 0;
    if !is_private || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other(format!("{} is open to other users", directory.display())));
    }
    Ok(())
}

/// Listens at a path, without blocking. Only this user can connect.
pub fn listen(path: &Path) -> Result<(OwnedFd, ListeningPath), ListenError> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    make_private_directory(directory)?;
    let directory = File::open(directory)?;
    let _lock = lock(directory.as_fd())?;
    let address = SocketAddrUnix::new(path)?;
    let socket = stream_socket()?;
    match net::bind(&socket, &address) {
        Err(Errno::ADDRINUSE) => {
            remove_stale(path, &address)?;
            net::bind(&socket, &address)?;
        }
        bound => bound?,
    }
    set_permissions(path, Permissions::from_mode(0o600))?;
    net::listen(&socket, BACKLOG)?;
    let inode = symlink_metadata(path)?.ino();
    Ok((socket, ListeningPath { path: path.into(), inode }))
}

/// Keeps other processes from replacing a stale socket at the same time.
fn lock(directory: BorrowedFd<'_>) -> Result<BorrowedFd<'_>, ListenError> {
    match flock(directory, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(directory),
        Err(Errno::WOULDBLOCK) => Err(ListenError::InUse),
        Err(error) => Err(error.into()),
    }
}

fn remove_stale(path: &Path, address: &SocketAddrUnix) -> Result<(), ListenError> {
    if !symlink_metadata(path)?.file_type().is_socket() {
        return Err(ListenError::NotASocket);
    }
    match net::connect(stream_socket()?, address) {
        Err(Errno::CONNREFUSED) => Ok(std::fs::remove_file(path)?),
        // A full queue is a live process's, too.
        Ok(()) | Err(Errno::AGAIN) => Err(ListenError::InUse),
        Err(error) => Err(error.into()),
    }
}

fn stream_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

impl Drop for ListeningPath {
    fn drop(&mut self) {
        if symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            // What is left is replaced by the next process.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("own").join("inspect.sock");
        let (socket, listening) = listen(&path).expect("a first one");
        assert_eq!(symlink_metadata(&path).expect("a socket").mode() & 0o777, 0o600);
        assert!(matches!(listen(&path), Err(ListenError::InUse)));
        drop(socket);
        std::mem::forget(listening);
        let (_socket, listening) = listen(&path).expect("the stale one is replaced");
        drop(listening);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_and_an_open_directory_are_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = folder.path().join("own");
        make_private_directory(&own).expect("made");
        let path = own.join("inspect.sock");
        std::fs::write(&path, "mine").expect("written");
        assert!(matches!(listen(&path), Err(ListenError::NotASocket)));
        assert_eq!(std::fs::read(&path).expect("still there"), b"mine");
        set_permissions(&own, Permissions::from_mode(0o755)).expect("opened");
        let error = listen(&own.join("other.sock")).expect_err("others could connect");
        assert!(error.to_string().contains("open to other users"), "{error}");
    }

    #[test]
    fn another_process_s_socket_is_not_removed_at_the_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("own").join("inspect.sock");
        let (_first, listening) = listen(&path).expect("a first one");
        std::fs::remove_file(&path).expect("taken away");
        let (_second, _still) = listen(&path).expect("a second one");
        drop(listening);
        assert!(path.exists());
    }
}
