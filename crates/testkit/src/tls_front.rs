//! TLS in front of a scripted server: certificates, protocol versions and cuts as a test wants them.
//!
//! Knows nothing of what goes through it: see [`crate::scripted_server`].

use std::io::{self, Read as _, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};

use crate::api_server::Authority;

/// How long one side is listened to before it is the other's turn.
const TURN: Duration = Duration::from_millis(5);

/// A TLS endpoint on loopback. Its threads end with the process.
pub struct TlsFront {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    behaviour: Behaviour,
    connections: Vec<TcpStream>,
}

/// What becomes of a connection.
#[derive(Clone)]
pub enum Behaviour {
    /// It leads to the server behind.
    Serve(Arc<ServerConfig>),
    /// The same, until so many bytes were sent to the client, wherever in a record that is.
    CutAfter(Arc<ServerConfig>, usize),
    /// The first message is answered with these bytes.
    Raw(Vec<u8>),
}

/// A server on loopback with a certificate of this authority.
pub fn certified_by(authority: &Authority) -> io::Result<Arc<ServerConfig>> {
    let (certificate, key) =
        authority.server(&[IpAddr::V4(Ipv4Addr::LOCALHOST)]).map_err(io::Error::other)?;
    let certificates = CertificateDer::pem_slice_iter(certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(io::Error::other)?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(io::Error::other)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(io::Error::other)?;
    Ok(Arc::new(config))
}

impl TlsFront {
    /// Accepts connections from now on, in the network namespace of this thread.
    pub fn start(behind: SocketAddr, behaviour: Behaviour) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(State { behaviour, connections: Vec::new() }));
        let accepting = Arc::clone(&state);
        thread::Builder::new().name("tls-front".into()).spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let mut state = lock(&accepting);
                state.connections.extend(client.try_clone());
                let behaviour = state.behaviour.clone();
                drop(state);
                thread::spawn(move || {
                    // A client that goes away is no failure of the server's.
                    let _ = behaviour.serve(&client, behind);
                    let _ = client.shutdown(Shutdown::Both);
                });
            }
        })?;
        Ok(Self { address, state })
    }

    /// Where it is reached.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Ends all connections; those to come are treated like this.
    pub fn behave(&self, behaviour: Behaviour) {
        lock(&self.state).behaviour = behaviour;
        self.disconnect();
    }

    /// Ends all connections.
    pub fn disconnect(&self) {
        for connection in lock(&self.state).connections.drain(..) {
            // It may have ended already.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Behaviour {
    fn serve(&self, client: &TcpStream, behind: SocketAddr) -> io::Result<()> {
        match self {
            Self::Serve(config) => relay(config, Client { stream: client, left: usize::MAX }, behind),
            Self::CutAfter(config, bytes) => relay(config, Client { stream: client, left: *bytes }, behind),
            Self::Raw(bytes) => answer_raw(client, bytes),
        }
    }
}

/// Waits for the whole first record, since a reset would overtake the answer.
fn answer_raw(mut client: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    let mut head = [0; 5];
    client.read_exact(&mut head)?;
    let length = u16::from_be_bytes([head[3], head[4]]);
    client.read_exact(&mut vec![0; usize::from(length)])?;
    client.write_all(bytes)?;
    client.shutdown(Shutdown::Write)?;
    io::copy(&mut client, &mut io::sink()).map(drop)
}

/// The client's side, of which only so much is left to be sent.
struct Client<'a> {
    stream: &'a TcpStream,
    left: usize,
}

impl io::Read for Client<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut stream = self.stream;
        stream.read(buffer)
    }
}

impl Write for Client<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut stream = self.stream;
        let sent = stream.write(bytes.get(..self.left).unwrap_or(bytes))?;
        self.left -= sent;
        if self.left == 0 { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(sent) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Passes bytes on in both directions, each in turn.
fn relay(config: &Arc<ServerConfig>, mut client: Client<'_>, behind: SocketAddr) -> io::Result<()> {
    let mut tls = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
    let mut server = TcpStream::connect(behind)?;
    for side in [client.stream, &server] {
        side.set_read_timeout(Some(TURN))?;
    }
    let mut buffer = vec![0; 16 << 10];
    loop {
        while tls.wants_write() {
            tls.write_tls(&mut client)?;
        }
        match some(tls.read_tls(&mut client))? {
            Some(0) => return Ok(()),
            Some(_) => {
                let processed = tls.process_new_packets();
                if processed.is_err() {
                    // The alert that says why.
                    tls.write_tls(&mut client)?;
                }
                processed.map_err(io::Error::other)?;
            }
            None => {}
        }
        while let Some(read @ 1..) = some(tls.reader().read(&mut buffer))? {
            server.write_all(&buffer[..read])?;
        }
        match some(server.read(&mut buffer))? {
            Some(0) => return Ok(()),
            Some(read) => tls.writer().write_all(&buffer[..read])?,
            None => {}
        }
    }
}

/// `None` if there is nothing for now.
fn some(read: io::Result<usize>) -> io::Result<Option<usize>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Ok(None),
        Err(error) => Err(error),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
