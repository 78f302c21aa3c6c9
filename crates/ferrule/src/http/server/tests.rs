//! Servers on loopback, asked by clients that mean no good.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener, TcpStream as StdStream};
use std::sync::atomic::AtomicUsize;

use super::*;
use crate::descriptors::Shares;
use crate::http::runtime::HttpRuntime;

/// Long enough for anything that should happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// Answers with its path; some paths are different.
#[derive(Default)]
struct TestHandler {
    answered: AtomicUsize,
}

impl Handler for TestHandler {
    fn handle(&self, request: &Request) -> Response {
        self.answered.fetch_add(1, Ordering::Relaxed);
        match request.path.as_str() {
            "/panics" => panic!("this page is broken"),
            "/large" => Response::text(200, vec![b'x'; 1 << 20]),
            path => Response::text(200, path.to_owned()),
        }
    }

    fn handle_blocking(&self, request: &Request) -> Option<BlockingResponse> {
        match request.path.as_str() {
            "/slow/panics" => Some(Box::new(|_| panic!("this page is broken, too"))),
            "/slow/choice/panics" => panic!("not even that is known"),
            _ => None,
        }
    }
}

struct Lab {
    runtime: HttpRuntime,
    handler: Arc<TestHandler>,
    address: SocketAddr,
}

impl Lab {
    fn new(connections: usize) -> Self {
        let runtime = HttpRuntime::start(Shares { connections, listeners: 10 }).expect("threads");
        let handler = Arc::new(TestHandler::default());
        let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let address = listener.local_addr().expect("an address");
        let server = runtime.server(PortKind::Metrics, Arc::clone(&handler) as Arc<dyn Handler>);
        runtime.handle(PortKind::Metrics).spawn(server.serve(listener.into()));
        Self { runtime, handler, address }
    }

    fn connect(&self) -> StdStream {
        let stream = StdStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    fn get(&self, path: &str) -> String {
        let mut stream = self.connect();
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").expect("asked");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text
    }
}

#[test]
fn a_page_that_panics_is_answered_with_500_and_the_server_lives() {
    let lab = Lab::new(64);
    for path in ["/panics", "/slow/panics", "/slow/choice/panics", "/panics"] {
        let response = lab.get(path);
        assert!(
            response.starts_with("HTTP/1.0 500 ") && response.ends_with("the handler of this page failed\n"),
            "{response}"
        );
        assert!(lab.get("/fine").ends_with("/fine"), "after {path}");
    }
}

#[test]
fn requests_behind_each_other_take_turns_with_other_connections() {
    const REQUESTS: usize = 20_000;
    let lab = Lab::new(64);
    let mut attack = lab.connect();
    let mut reading = BufReader::new(attack.try_clone().expect("the same socket"));
    let sending = std::thread::spawn(move || {
        let _ = attack.write_all(&b"GET /attack HTTP/1.1\r\nHost: x\r\n\r\n".repeat(REQUESTS));
    });
    let mut line = String::new();
    reading.read_line(&mut line).expect("a first answer");
    let draining = std::thread::spawn(move || io::copy(&mut reading, &mut io::sink()));
    let before = lab.handler.answered.load(Ordering::Relaxed);
    assert!(lab.get("/other").ends_with("/other"));
    let waited_for = lab.handler.answered.load(Ordering::Relaxed) - before;
    assert!(waited_for < REQUESTS / 4, "{waited_for} others were answered first");
    drop(lab);
    sending.join().expect("no panic");
    drop(draining);
}

#[test]
fn clients_beyond_the_limit_get_in_and_the_least_recently_used_is_closed() {
    let lab = Lab::new(40);
    let mut idle: Vec<StdStream> = (0..200).map(|_| lab.connect()).collect();
    assert!(lab.get("/new").ends_with("/new"));
    let closed = idle[0].read(&mut [0; 1]);
    assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
    let last = idle.last_mut().expect("one");
    write!(last, "GET /last HTTP/1.0\r\n\r\n").expect("asked");
    let mut text = String::new();
    last.read_to_string(&mut text).expect("an answer");
    assert!(text.ends_with("/last"), "{text}");
    assert!(lab.runtime.connections.evicted(PortKind::Metrics) >= 160);
}

#[test]
fn answers_that_nobody_reads_are_dropped_for_those_who_do() {
    let lab = Lab::new(64);
    // Far more than may wait, beside what the kernel takes.
    let _stalled: Vec<StdStream> = (0..40)
        .map(|_| {
            let mut stream = lab.connect();
            stream.write_all(&b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n".repeat(8)).expect("asked");
            stream
        })
        .collect();
    assert!(lab.get("/large").ends_with("xxx"), "an answer of a MiB");
}
