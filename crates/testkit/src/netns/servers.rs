//! The servers of a world: each answers with one line, its own address and the client's.
//!
//! One thread serves all of them: a socket stays in the namespace it was created in, whichever thread uses it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::thread::{self, JoinHandle};

use ferrule_model::Protocol;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{self, RecvFlags, SendFlags, SocketFlags};

use super::sockets::{is_unsupported, open};
use super::{Namespace, NetError};

/// The thread of all servers; dropping it ends them.
#[derive(Debug)]
pub(super) struct Servers {
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// One server's socket.
#[derive(Debug)]
pub(super) struct Server {
    protocol: Protocol,
    address: SocketAddr,
    socket: OwnedFd,
}

impl Server {
    /// Opens servers in a namespace, except those of a protocol this kernel does not have.
    pub(super) fn open_all(
        namespace: &Namespace,
        wanted: &[(Protocol, SocketAddr)],
    ) -> Result<Vec<Self>, NetError> {
        namespace.run(|| {
            let opened = wanted.iter().map(|(protocol, address)| Self::open(*protocol, *address));
            opened.filter_map(Result::transpose).collect()
        })?
    }

    fn open(protocol: Protocol, address: SocketAddr) -> Result<Option<Self>, NetError> {
        match listening(protocol, address) {
            Ok(socket) => Ok(Some(Self { protocol, address, socket })),
            Err(error) if is_unsupported(&error) => Ok(None),
            Err(source) => Err(NetError::Serve { protocol, address, source }),
        }
    }

    /// Answers all waiting clients.
    fn answer(&self) {
        let answered = match self.protocol {
            Protocol::Udp => Self::answer_datagram,
            Protocol::Tcp | Protocol::Sctp => Self::answer_connection,
        };
        // An error means that no client waits, or that one disconnected.
        while answered(self).is_ok() {}
    }

    fn answer_connection(&self) -> io::Result<()> {
        let (socket, peer) = net::acceptfrom_with(&self.socket, SocketFlags::CLOEXEC)?;
        // Fails if the client disconnected.
        let _ = net::send(&socket, self.line(peer).as_bytes(), SendFlags::NOSIGNAL);
        Ok(())
    }

    fn answer_datagram(&self) -> io::Result<()> {
        let mut buffer = [0; 64];
        let (_, _, peer) = net::recvfrom(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT)?;
        if let Some(peer) = peer {
            let _ = net::sendto(
                &self.socket,
                self.line(Some(peer.clone())).as_bytes(),
                SendFlags::DONTWAIT,
                &peer,
            );
        }
        Ok(())
    }

    fn line(&self, peer: Option<net::SocketAddrAny>) -> String {
        let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
        peer.map_or_else(String::new, |peer| format!("{} {peer}\n", self.address))
    }
}

impl Servers {
    pub(super) fn start(servers: Vec<Server>) -> Result<Self, NetError> {
        let (stopped, stop) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|source| NetError::Servers { source: source.into() })?;
        let thread = thread::Builder::new()
            .name("netns-servers".into())
            .spawn(move || serve(&servers, &stopped))
            .map_err(|source| NetError::Servers { source })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        // The thread sees the other end of the pipe close.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(servers: &[Server], stopped: &OwnedFd) {
    let sockets = servers.iter().map(|server| server.socket.as_fd());
    let mut waiting: Vec<PollFd<'_>> = std::iter::once(stopped.as_fd())
        .chain(sockets)
        .map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN))
        .collect();
    loop {
        match poll(&mut waiting, None) {
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
            Ok(_) if !waiting[0].revents().is_empty() => return,
            Ok(_) => {
                let ready =
                    servers.iter().zip(&waiting[1..]).filter(|(_, waits)| !waits.revents().is_empty());
                ready.for_each(|(server, _)| server.answer());
            }
        }
    }
}

fn listening(protocol: Protocol, address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = open(address.ip(), Some(protocol))?;
    net::sockopt::set_socket_reuseaddr(&socket, true)?;
    net::bind(&socket, &address)?;
    if protocol != Protocol::Udp {
        net::listen(&socket, 1024)?;
    }
    Ok(socket)
}
