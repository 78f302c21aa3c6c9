//! One TLS connection to the API server, for one request after the other.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: BufReader<StreamOwned<ClientConnection, TcpStream>>,
    is_last: bool,
}

/// How long the body of a response is.
enum Length {
    Bytes(usize),
    Chunked,
}

impl Connection {
    /// A handshake with a server whose certificate this CA signed.
    pub(super) fn open(stream: TcpStream, ca: &str) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_slice(ca.as_bytes()).map_err(io::Error::other)?;
        roots.add(certificate).map_err(io::Error::other)?;
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::IpAddress(stream.peer_addr()?.ip().into());
        let session = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(StreamOwned::new(session, stream)), is_last: false })
    }

    /// Whether the server has not closed it: nothing may arrive between two responses.
    pub(super) fn is_open(&self) -> bool {
        let mut wanted = [PollFd::new(&self.stream.get_ref().sock, PollFlags::IN)];
        poll(&mut wanted, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready == 0)
    }

    /// Whether the server said that it would close it.
    pub(super) fn is_last(&self) -> bool {
        self.is_last
    }

    /// Sends a request; status and body of the response.
    pub(super) fn exchange(&mut self, request: &str) -> io::Result<(u16, Vec<u8>)> {
        let stream = self.stream.get_mut();
        stream.write_all(request.as_bytes())?;
        stream.flush()?;
        let first = self.line()?;
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(broken)?;
        let mut length = Length::Bytes(0);
        loop {
            let line = self.line()?.to_ascii_lowercase();
            match line.split_once(':').map(|(name, value)| (name, value.trim())) {
                Some(("content-length", value)) => {
                    length = Length::Bytes(value.parse().map_err(|_| broken())?);
                }
                Some(("transfer-encoding", "chunked")) => length = Length::Chunked,
                Some(("connection", "close")) => self.is_last = true,
                Some(_) => {}
                None => break,
            }
        }
        let body = match length {
            Length::Bytes(length) => self.bytes(length)?,
            Length::Chunked => self.chunks()?,
        };
        Ok((status, body))
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn bytes(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let length = usize::from_str_radix(&self.line()?, 16).map_err(|_| broken())?;
            body.extend(self.bytes(length)?);
            // Every chunk ends with an empty line, the last one too, which is empty itself.
            self.line()?;
            if length == 0 {
                return Ok(body);
            }
        }
    }
}

fn broken() -> io::Error {
    io::Error::other("a response that is not HTTP")
}
