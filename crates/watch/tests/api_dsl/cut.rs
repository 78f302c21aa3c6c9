//! A TCP proxy between a source and the API server that a test can interrupt.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use ferrule_testkit::api_server::ApiServer;

/// Listens in the API server's namespace, on an address in its certificate.
pub struct Cable {
    state: Arc<State>,
    address: SocketAddr,
}

struct State {
    server: SocketAddr,
    is_tunnel: bool,
    is_whole: AtomicBool,
    /// Bytes that still reach the source before the cable is cut once.
    left: AtomicI64,
    /// Whether it stalls then instead.
    stalls: AtomicBool,
    made: AtomicUsize,
    ends: Mutex<Vec<TcpStream>>,
}

impl Cable {
    pub fn new(server: &ApiServer) -> Self {
        Self::start(server, false)
    }

    /// An HTTP proxy: the client must send CONNECT.
    pub fn tunnel(server: &ApiServer) -> Self {
        Self::start(server, true)
    }

    fn start(server: &ApiServer, is_tunnel: bool) -> Self {
        let state = Arc::new(State {
            server: server.address(),
            is_tunnel,
            is_whole: AtomicBool::new(true),
            left: AtomicI64::new(i64::MAX),
            stalls: AtomicBool::new(false),
            made: AtomicUsize::new(0),
            ends: Mutex::default(),
        });
        let accepting = state.clone();
        let address = server.namespace().run(move || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            // The thread inherits the network namespace. It ends with the process.
            thread::spawn(move || accepting.accept(&listener));
            address
        });
        Self { state, address: address.unwrap() }
    }

    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Number of connections so far.
    pub fn connections(&self) -> usize {
        self.state.made.load(Ordering::SeqCst)
    }

    /// Cuts it, and keeps it cut.
    pub fn cut(&self) {
        self.state.is_whole.store(false, Ordering::SeqCst);
        // A planned interruption must not hit the next connection.
        self.state.stalls.store(false, Ordering::SeqCst);
        self.state.left.store(i64::MAX, Ordering::SeqCst);
        self.state.drop_all();
    }

    pub fn mend(&self) {
        self.state.is_whole.store(true, Ordering::SeqCst);
    }

    /// Cuts it once, after that many more bytes to the source.
    pub fn cut_after(&self, bytes: i64) {
        self.state.left.store(bytes, Ordering::SeqCst);
    }

    /// Stalls after that many more bytes to the source, until it is cut. Unlike with a cut, the source is certain to read the
    /// bytes before.
    pub fn stall_after(&self, bytes: i64) {
        self.state.stalls.store(true, Ordering::SeqCst);
        self.cut_after(bytes);
    }
}

impl State {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for mut source in listener.incoming().map_while(Result::ok) {
            if !self.is_whole.load(Ordering::SeqCst) || (self.is_tunnel && !is_opened(&mut source)) {
                continue;
            }
            let Ok(server) = TcpStream::connect(self.server) else { continue };
            self.made.fetch_add(1, Ordering::SeqCst);
            self.ends.lock().unwrap().extend([source.try_clone().unwrap(), server.try_clone().unwrap()]);
            let (up, down) = (self.clone(), self.clone());
            let (source_end, server_end) = (source.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || up.carry(source, server_end, false));
            thread::spawn(move || down.carry(server, source_end, true));
        }
    }

    fn carry(&self, mut from: TcpStream, mut to: TcpStream, is_down: bool) {
        let mut bytes = [0; 4096];
        let mut is_stalled = false;
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if is_down && self.is_cut_by(count) {
                self.left.store(i64::MAX, Ordering::SeqCst);
                is_stalled = self.stalls.swap(false, Ordering::SeqCst);
                if !is_stalled {
                    self.drop_all();
                    return;
                }
            }
            if !is_stalled && to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }

    fn is_cut_by(&self, count: usize) -> bool {
        if self.left.load(Ordering::SeqCst) == i64::MAX {
            return false;
        }
        let count = i64::try_from(count).unwrap();
        self.left.fetch_sub(count, Ordering::SeqCst) <= count
    }

    fn drop_all(&self) {
        for end in self.ends.lock().unwrap().drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

/// Accepts a CONNECT, whatever its target.
fn is_opened(source: &mut TcpStream) -> bool {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        if source.read_exact(&mut byte).is_err() {
            return false;
        }
        request.extend(byte);
    }
    request.starts_with(b"CONNECT ") && source.write_all(b"HTTP/1.1 200 OK\r\n\r\n").is_ok()
}
