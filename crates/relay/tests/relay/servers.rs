//! Endpoints on loopback, each on a thread of its own, and a relay in front of them.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ferrule_relay::{Pool, PoolLimits, Portal, Relay, RelayOptions};

/// Nothing here takes this long unless it is broken.
pub const LIMIT: Duration = Duration::from_secs(30);

/// A relay with one portal.
pub struct World {
    pub portal: Portal,
    pub pool: Arc<Pool>,
    pub relay: Relay,
}

pub fn options() -> RelayOptions {
    RelayOptions { threads: Some(2), ..RelayOptions::default() }
}

pub fn pool_of(endpoints: &[SocketAddr]) -> Arc<Pool> {
    let pool = Pool::new(PoolLimits::default());
    pool.set_endpoints(endpoints.to_vec());
    pool
}

impl World {
    pub fn tcp(endpoints: &[SocketAddr]) -> Self {
        Self::tcp_with(options(), pool_of(endpoints))
    }

    pub fn tcp_with(options: RelayOptions, pool: Arc<Pool>) -> Self {
        let relay = Relay::start(options).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let portal = relay.serve_tcp(listener, Arc::clone(&pool)).unwrap();
        Self { portal, pool, relay }
    }

    pub fn udp(endpoints: &[SocketAddr]) -> Self {
        Self::udp_with(options(), pool_of(endpoints))
    }

    pub fn udp_with(options: RelayOptions, pool: Arc<Pool>) -> Self {
        let relay = Relay::start(options).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let portal = relay.serve_udp(socket, Arc::clone(&pool)).unwrap();
        Self { portal, pool, relay }
    }

    pub fn address(&self) -> SocketAddr {
        self.portal.local_addr()
    }

    pub fn connect(&self) -> TcpStream {
        connect(self.address())
    }

    /// A client's datagram socket.
    pub fn client(&self) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(self.address()).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        socket
    }
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream
}

/// Serves each connection on a thread, for as long as the test program runs.
pub fn serve(handle: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let handle = Arc::new(handle);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let handle = Arc::clone(&handle);
            thread::spawn(move || handle(stream));
        }
    });
    address
}

/// Sends back what it gets.
pub fn echo_server() -> SocketAddr {
    serve(|mut stream| {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let length = stream.read(&mut buffer)?;
            if length == 0 {
                return Ok(());
            }
            stream.write_all(&buffer[..length])?;
        }
    })
}

/// Sends its own port, then ends.
pub fn naming_server() -> SocketAddr {
    serve(|mut stream| {
        let port = stream.local_addr()?.port().to_string();
        stream.write_all(port.as_bytes())
    })
}

/// Which endpoint answers a new connection.
pub fn named_by(portal: SocketAddr) -> io::Result<u16> {
    let mut stream = TcpStream::connect(portal)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let mut name = String::new();
    stream.read_to_string(&mut name)?;
    name.parse().map_err(|_| io::Error::other(format!("no port but {name:?}")))
}

/// An address where nothing listens.
pub fn refusing() -> SocketAddr {
    // Bound, so that no other test gets the port; not listening, so that connections are refused.
    let socket =
        rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = rustix::net::getsockname(&socket).unwrap();
    std::mem::forget(socket);
    address.try_into().unwrap()
}

/// An endpoint that never answers: its queue of connections is full, so the kernel drops what comes in.
pub fn silent() -> SocketAddr {
    let socket =
        rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    rustix::net::listen(&socket, 0).unwrap();
    let address: SocketAddr = rustix::net::getsockname(&socket).unwrap().try_into().unwrap();
    std::mem::forget(socket);
    // A backlog of zero holds one connection.
    loop {
        match TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
            Ok(stream) => std::mem::forget(stream),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return address,
            Err(error) => panic!("filling the queue of {address}: {error}"),
        }
    }
}

/// Sends back what it gets.
pub fn udp_echo_server() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok((length, client)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..length], client);
        }
    });
    address
}

/// Answers every datagram with its own port.
pub fn udp_naming_server() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let name = address.port().to_string();
        let mut buffer = [0; 64];
        while let Ok((_, client)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(name.as_bytes(), client);
        }
    });
    address
}

/// Waits until a state is reached.
pub fn wait_until(what: &str, mut reached: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !reached() {
        assert!(Instant::now() < deadline, "waited {LIMIT:?} for: {what}");
        thread::yield_now();
        thread::park_timeout(Duration::from_millis(1));
    }
}

/// Whether the peer ended with a reset.
pub fn is_reset(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionReset
}
