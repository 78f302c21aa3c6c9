//! An API server that says whatever a test wants it to say, over plain HTTP on loopback.
//!
//! For what a real one never does: answers of other kinds, headers out of this world, bodies cut in the middle. What a real
//! one does is asked of a real one: see `api_server`.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
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
    /// The connections there are, to be ended by a test.
    connections: Mutex<Vec<TcpStream>>,
}

type Script = Box<dyn FnMut(&Request) -> Reply + Send>;

/// What was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The path with its query.
    pub target: String,
    /// The lines of the head, after the first.
    pub headers: Vec<String>,
}

/// What is answered.
#[derive(Clone, Debug)]
pub enum Reply {
    /// An answer with a length.
    Answer {
        /// The status.
        status: u16,
        /// More lines of the head.
        headers: Vec<String>,
        /// The body.
        body: Vec<u8>,
    },
    /// Lines of a watch, which is then kept open.
    Watch(Vec<Value>),
    /// Bytes, whatever they are; then the connection is closed.
    Raw(Vec<u8>),
    /// Nothing, for as long as the other side waits.
    Silence,
}

impl Reply {
    /// An object in JSON.
    pub fn json(object: &Value) -> Self {
        Self::Answer {
            status: 200,
            headers: vec!["content-type: application/json".into()],
            body: object.to_string().into_bytes(),
        }
    }

    /// A refusal with some more lines of the head.
    pub fn refusal(status: u16, headers: &[&str]) -> Self {
        let headers = headers.iter().map(ToString::to_string).collect();
        Self::Answer { status, headers, body: Vec::new() }
    }
}

impl Request {
    /// Whether it is about one of these: `services`, `endpointslices`, `nodes`, `servicecidrs`.
    pub fn is_about(&self, plural: &str) -> bool {
        self.target.split('?').next().is_some_and(|path| path.ends_with(&format!("/{plural}")))
    }

    /// Whether a watch is asked for.
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
    /// Begins to answer.
    pub fn start(script: impl FnMut(&Request) -> Reply + Send + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
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
                    // A client that goes away is no failure of the server's.
                    let _ = state.serve(&stream);
                    let _ = stream.shutdown(Shutdown::Both);
                });
            }
        })?;
        Ok(Self { address, state })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Everything that was asked so far.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.state.requests).clone()
    }

    /// Goes on by another script.
    pub fn follow(&self, script: impl FnMut(&Request) -> Reply + Send + 'static) {
        *lock(&self.state.script) = Box::new(script);
    }

    /// Ends all connections there are.
    pub fn disconnect(&self) {
        for connection in lock(&self.state.connections).drain(..) {
            // It may have ended already.
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
    const LONGEST_HEAD: usize = 64 << 10;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if head.len() > LONGEST_HEAD || stream.read(&mut byte)? == 0 {
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

/// What a well-behaved server with these Services, at this version, answers.
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
