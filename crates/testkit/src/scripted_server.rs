//! An API server that sends whatever a test scripts, over plain HTTP.
//!
//! For what a real one never does: lists of other kinds, absurd headers, truncated bodies. Everything else is tested with a
//! real one: see `api_server`.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde_json::{Value, json};

/// A server that follows a script. Its thread ends with the process.
pub struct ScriptedServer {
    address: SocketAddr,
    state: Arc<State>,
}

struct State {
    script: Mutex<Script>,
    requests: Mutex<Vec<Request>>,
    /// Open connections, which a test may close.
    connections: Mutex<Vec<TcpStream>>,
}

type Script = Box<dyn FnMut(&Request) -> Reply + Send>;

/// A request as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The path with its query.
    pub target: String,
    /// Header lines.
    pub headers: Vec<String>,
}

/// A scripted response.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A response with a length.
    Answer {
        /// HTTP status.
        status: u16,
        /// Further header lines.
        headers: Vec<String>,
        /// Sent as it is.
        body: Vec<u8>,
    },
    /// Events of a watch, which then stays open.
    Watch(Vec<Value>),
    /// Arbitrary bytes, after which the connection is closed.
    Raw(Vec<u8>),
    /// No response; the connection stays open.
    Silence,
}

impl Reply {
    /// Status 200 with an object in JSON.
    pub fn json(object: &Value) -> Self {
        Self::Answer {
            status: 200,
            headers: vec!["content-type: application/json".into()],
            body: object.to_string().into_bytes(),
        }
    }

    /// An error status with further header lines.
    pub fn refusal(status: u16, headers: &[&str]) -> Self {
        let headers = headers.iter().map(ToString::to_string).collect();
        Self::Answer { status, headers, body: Vec::new() }
    }
}

impl Request {
    /// Whether it is for a collection: `services`, `endpointslices`, `nodes` or `servicecidrs`.
    pub fn is_about(&self, plural: &str) -> bool {
        self.target.split('?').next().is_some_and(|path| path.ends_with(&format!("/{plural}")))
    }

    /// Whether it is a watch.
    pub fn is_watch(&self) -> bool {
        self.target.contains("watch=true")
    }

    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

impl ScriptedServer {
    /// Starts to serve by a script, on loopback.
    pub fn start(script: impl FnMut(&Request) -> Reply + Send + 'static) -> io::Result<Self> {
        Self::start_on(Ipv4Addr::LOCALHOST.into(), script)
    }

    /// Starts to serve by a script, on this address of the thread's network namespace.
    pub fn start_on(
        address: IpAddr,
        script: impl FnMut(&Request) -> Reply + Send + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((address, 0))?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            script: Mutex::new(Box::new(script)),
            requests: Mutex::default(),
            connections: Mutex::default(),
        });
        let serving = Arc::clone(&state);
        thread::Builder::new().name("scripted-server".into()).spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&serving);
                lock(&state.connections).extend(stream.try_clone());
                thread::spawn(move || {
                    // A client may disconnect at any time.
                    let _ = state.serve(&stream);
                    let _ = stream.shutdown(Shutdown::Both);
                });
            }
        })?;
        Ok(Self { address, state })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.state.requests).clone()
    }

    /// Replaces the script.
    pub fn follow(&self, script: impl FnMut(&Request) -> Reply + Send + 'static) {
        *lock(&self.state.script) = Box::new(script);
    }

    /// Closes all open connections.
    pub fn disconnect(&self) {
        for connection in lock(&self.state.connections).drain(..) {
            // Fails if the client closed it already.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl State {
    fn serve(&self, mut stream: &TcpStream) -> io::Result<()> {
        while let Some(request) = read_request(stream)? {
            lock(&self.requests).push(request.clone());
            let reply = (lock(&self.script))(&request);
            match reply {
                Reply::Answer { status, headers, body } => {
                    let length = format!("content-length: {}", body.len());
                    let head = [vec![format!("HTTP/1.1 {status} -"), length], headers].concat().join("\r\n");
                    write!(stream, "{head}\r\n\r\n")?;
                    stream.write_all(&body)?;
                }
                Reply::Watch(events) => {
                    write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")?;
                    write!(stream, "transfer-encoding: chunked\r\n\r\n")?;
                    for event in events {
                        let line = format!("{event}\n");
                        write!(stream, "{:x}\r\n{line}\r\n", line.len())?;
                    }
                    return io::copy(&mut stream, &mut io::sink()).map(drop);
                }
                Reply::Raw(bytes) => return stream.write_all(&bytes),
                Reply::Silence => return io::copy(&mut stream, &mut io::sink()).map(drop),
            }
        }
        Ok(())
    }
}

fn read_request(mut stream: &TcpStream) -> io::Result<Option<Request>> {
    const MAX_HEAD_BYTES: usize = 64 << 10;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if head.len() > MAX_HEAD_BYTES || stream.read(&mut byte)? == 0 {
            return Ok(None);
        }
        head.extend(byte);
    }
    let head = String::from_utf8_lossy(&head);
    let mut lines = head.lines();
    let target = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
    Ok(Some(Request { target, headers: lines.filter(|line| !line.is_empty()).map(str::to_owned).collect() }))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The response of a well-behaved server that has these Services, at this resource version.
pub fn usual(request: &Request, services: &[Value], version: u64) -> Reply {
    let version = version.to_string();
    if request.target == "/version" {
        return Reply::json(&json!({ "major": "1", "minor": "37" }));
    }
    let (kind, api_version, items) = match request {
        request if request.is_about("services") => ("Service", "v1", services),
        request if request.is_about("endpointslices") => ("EndpointSlice", "discovery.k8s.io/v1", &[][..]),
        request if request.is_about("servicecidrs") => ("ServiceCIDR", "networking.k8s.io/v1", &[][..]),
        request if request.is_about("nodes") => ("Node", "v1", &[][..]),
        _ => return Reply::refusal(404, &[]),
    };
    if request.target.contains("sendInitialEvents=true") {
        let end = json!({ "k8s.io/initial-events-end": "true" });
        let metadata = json!({ "resourceVersion": version, "annotations": end });
        let object = json!({ "kind": kind, "apiVersion": api_version, "metadata": metadata });
        return Reply::Watch(vec![json!({ "type": "BOOKMARK", "object": object })]);
    }
    if request.is_watch() {
        return Reply::Watch(Vec::new());
    }
    let metadata = json!({ "resourceVersion": version });
    let list = json!({ "kind": format!("{kind}List"), "apiVersion": api_version, "metadata": metadata });
    Reply::json(&with_items(list, items))
}

fn with_items(mut list: Value, items: &[Value]) -> Value {
    if let Some(fields) = list.as_object_mut() {
        fields.insert("items".into(), items.into());
    }
    list
}
