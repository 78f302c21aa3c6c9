//! Requests, responses and handlers, independent of the wire.

use std::fmt;
use std::sync::atomic::AtomicBool;

use hyper::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, watch};

/// A request, read completely.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// HEAD counts as GET.
    pub method: Method,
    /// Without the query.
    pub path: String,
    /// Undecoded, without the question mark.
    pub query: String,
    /// The header `Accept`.
    pub accept: String,
    /// Whether the response may be compressed.
    pub accepts_gzip: bool,
    /// Of limited size.
    pub body: Vec<u8>,
}

/// The methods that handlers distinguish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// GET and HEAD.
    #[default]
    Get,
    /// PUT
    Put,
    /// DELETE
    Delete,
    /// Anything else.
    Other,
}

impl Request {
    #[cfg(test)]
    pub fn get(path: &str) -> Self {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        Self { path: path.to_owned(), query: query.to_owned(), ..Self::default() }
    }

    /// The values of a query parameter.
    pub fn parameters<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let pairs = self.query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.filter(move |(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Whether the query has a parameter, with a value or without.
    pub fn has(&self, name: &str) -> bool {
        self.parameters(name).next().is_some()
    }
}

/// A complete response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Headers with valid values.
    pub headers: Vec<(&'static str, String)>,
    /// Cheap to clone, so that many responses can share it.
    pub body: Bytes,
}

impl Response {
    /// Plain text as Go's servers send it.
    pub fn text(status: u16, body: impl Into<Bytes>) -> Self {
        Self::new("text/plain; charset=utf-8", status, body)
    }

    /// `application/json`
    pub fn json(status: u16, body: impl Into<Bytes>) -> Self {
        Self::new("application/json", status, body)
    }

    /// Any content type, with the header that keeps browsers from guessing another.
    pub fn new(content_type: &str, status: u16, body: impl Into<Bytes>) -> Self {
        Self::sniffable(content_type, status, body).with("x-content-type-options", "nosniff")
    }

    /// Any content type, without that header.
    pub fn sniffable(content_type: &str, status: u16, body: impl Into<Bytes>) -> Self {
        Self { status, headers: vec![("content-type", content_type.to_owned())], body: body.into() }
    }

    /// Go's 404.
    pub fn not_found() -> Self {
        Self::text(404, "404 page not found\n")
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// Makes a response on a thread of its own, because it takes its time. The flag is set when the client is gone.
pub type BlockingResponse = Box<dyn FnOnce(&AtomicBool) -> Response + Send>;

/// Events for as long as a client listens. There is at most one message between two others of [`super::event_stream`]'s interval,
/// however much happens, so that nothing piles up for a slow reader.
#[derive(Debug)]
pub struct EventStream {
    /// Wakes when there is something new.
    pub changes: watch::Receiver<u64>,
    /// Makes the message, which is one line.
    pub message: MakeMessage,
    /// Released when the client is gone.
    #[expect(dead_code, reason = "released when dropped")]
    pub permit: OwnedSemaphorePermit,
}

/// Makes a message at the moment it is sent.
pub struct MakeMessage(pub Box<dyn Fn() -> String + Send + Sync>);

impl fmt::Debug for MakeMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MakeMessage")
    }
}

/// Responds to the requests of one port.
pub trait Handler: Send + Sync + 'static {
    /// Responds at once: all connections of the thread wait for it.
    fn handle(&self, request: &Request) -> Response;

    /// A response without an end, if that is what is asked for; or why there is none now.
    fn events(&self, _: &Request) -> Option<Result<EventStream, Response>> {
        None
    }

    /// The response, if it is one that other requests must not wait for.
    fn handle_blocking(&self, _: &Request) -> Option<BlockingResponse> {
        None
    }
}
