//! Questions and answers, without anything of the wire.

use std::sync::atomic::AtomicBool;

use hyper::body::Bytes;

/// What is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// How.
    pub method: Method,
    /// For what, without the query.
    pub path: String,
    /// The query, undecoded.
    pub query: String,
    /// The header `Accept`.
    pub accept: String,
    /// Whether an answer may be compressed.
    pub accepts_gzip: bool,
    /// What was sent along.
    pub body: Vec<u8>,
}

/// How something is asked.
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

impl Question {
    /// Asks for a page.
    pub fn get(path: &str) -> Self {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        Self { path: path.to_owned(), query: query.to_owned(), ..Self::default() }
    }

    /// The values of a parameter of the query.
    pub fn parameters<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let pairs = self.query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.filter(move |(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Whether a parameter is there, with a value or without.
    pub fn has(&self, name: &str) -> bool {
        self.parameters(name).next().is_some()
    }
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Headers, with values fit for the wire.
    pub headers: Vec<(&'static str, String)>,
    /// The body; cheap to clone, so that many can be given the same.
    pub body: Bytes,
}

impl Answer {
    /// Text as Go's servers send it.
    pub fn text(status: u16, body: impl Into<Bytes>) -> Self {
        Self::of("text/plain; charset=utf-8", status, body)
    }

    /// JSON.
    pub fn json(status: u16, body: impl Into<Bytes>) -> Self {
        Self::of("application/json", status, body)
    }

    /// Anything, with the header that keeps browsers from guessing.
    pub fn of(kind: &str, status: u16, body: impl Into<Bytes>) -> Self {
        let headers =
            vec![("content-type", kind.to_owned()), ("x-content-type-options", "nosniff".to_owned())];
        Self { status, headers, body: body.into() }
    }

    /// Anything, without that header.
    pub fn plain(kind: &str, status: u16, body: impl Into<Bytes>) -> Self {
        Self { status, headers: vec![("content-type", kind.to_owned())], body: body.into() }
    }

    /// There is no such page.
    pub fn not_found() -> Self {
        Self::text(404, "404 page not found\n")
    }

    /// With one more header.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// A page that takes its time, made on a thread of its own. It is told when nobody waits for it any more.
pub type SlowPage = Box<dyn FnOnce(&AtomicBool) -> Answer + Send>;

/// Something that answers.
pub trait Pages: Send + Sync + 'static {
    /// The answer to a question. All pages wait for each other's.
    fn answer(&self, question: &Question) -> Answer;

    /// The answer, if it is one that others must not wait for.
    fn slow(&self, _: &Question) -> Option<SlowPage> {
        None
    }
}
