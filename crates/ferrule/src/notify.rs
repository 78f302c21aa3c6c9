//! Readiness for systemd (`Type=notify`): one datagram to `$NOTIFY_SOCKET` when all rules are in the kernel.
//!
//! Sent from a thread of its own: the receiver may be busy, and the loop must not block.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use tracing::warn;

use ferrule_kernel::threads;

const SOCKET: &str = "NOTIFY_SOCKET";

/// How long the receiver may take to read; systemd's start timeout is one and a half minutes.
const SEND_TIMEOUT: Duration = Duration::from_mins(1);

/// Notifies the supervisor, if there is one, that the proxy is ready.
pub fn ready() {
    let Some(socket) = std::env::var_os(SOCKET).filter(|socket| !socket.is_empty()) else { return };
    let shown = socket.display().to_string();
    let started = threads::spawn("notify", move || {
        if let Err(error) = send(socket.as_bytes(), b"READY=1\n", SEND_TIMEOUT) {
            warn!(err = %error, socket = %socket.display(), "Cannot notify systemd of readiness");
        }
    });
    if let Err(error) = started {
        warn!(err = %error, socket = shown, "Cannot notify systemd of readiness");
    }
}

/// The socket is a path, or an abstract name after `@`.
fn send(socket: &[u8], message: &[u8], limit: Duration) -> io::Result<()> {
    let address = match socket.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(socket))?,
    };
    let sender = UnixDatagram::unbound()?;
    sender.set_write_timeout(Some(limit))?;
    sender.send_to_addr(message, &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> Vec<u8> {
        let mut buffer = [0; 64];
        let length = socket.recv(&mut buffer).expect("a datagram");
        buffer[..length].to_vec()
    }

    #[test]
    fn a_path_and_an_abstract_name_are_notified() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        send(path.as_os_str().as_bytes(), b"READY=1\n", SEND_TIMEOUT).expect("it is sent");
        assert_eq!(received(&socket), b"READY=1\n");

        let name = format!("ferrule-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let socket = UnixDatagram::bind_addr(&address).expect("a socket");
        send(format!("@{name}").as_bytes(), b"READY=1\n", SEND_TIMEOUT).expect("it is sent");
        assert_eq!(received(&socket), b"READY=1\n");
        assert!(send(b"/nowhere/at/all", b"READY=1\n", SEND_TIMEOUT).is_err());
    }
    #[test]
    fn a_reader_that_never_reads_is_given_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let _socket = UnixDatagram::bind(&path).expect("a socket");
        let send = || send(path.as_os_str().as_bytes(), b"READY=1\n", Duration::from_millis(50));
        let refused = (0..10_000).find_map(|_| send().err());
        assert_eq!(refused.expect("the queue has an end").kind(), io::ErrorKind::WouldBlock);
    }
}
