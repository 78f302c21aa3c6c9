//! Talks HTTP/1.1: takes connections, bounds what each may cost, asks the pages.
//!
//! Nobody can hold the port: there is a limit on connections, beyond which the oldest goes, and on the time and size of
//! what a request may say before it is answered.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ACCEPT_ENCODING, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::{Answer, Method, Pages, Question, SlowPage};

/// More connections than this at a time are one too many, and the oldest ends.
const MOST_CONNECTIONS: usize = 512;
/// So long a client may take to say what it wants, and may be silent after an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// A connection lasts no longer than this, whatever happens on it.
const LONGEST: Duration = Duration::from_mins(10);
/// What a request's head may be long.
const LARGEST_HEAD: usize = 64 * 1024;
/// What may be sent along with a request.
const LARGEST_BODY: usize = 4096;
/// After a failure to accept (no descriptors left, say), there is a pause.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves pages on a socket until it is cancelled.
pub async fn serve(listener: TcpListener, pages: Arc<dyn Pages>) {
    let mut connections = Connections::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => connections.add(tokio::spawn(attend(stream, Arc::clone(&pages)))),
            Err(error) if is_about_one_client(&error) => {}
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// The connections there are, the oldest first. They end with the server.
#[derive(Default)]
struct Connections(VecDeque<JoinHandle<()>>);

impl Connections {
    fn add(&mut self, connection: JoinHandle<()>) {
        self.0.retain(|connection| !connection.is_finished());
        self.0.push_back(connection);
        if self.0.len() > MOST_CONNECTIONS
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.abort();
        }
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        for connection in &self.0 {
            connection.abort();
        }
    }
}

fn is_about_one_client(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}

async fn attend(stream: TcpStream, pages: Arc<dyn Pages>) {
    let answering = service_fn(move |request| {
        let pages = Arc::clone(&pages);
        async move { Ok::<_, Infallible>(respond(request, &*pages).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(stream), answering);
    // What goes wrong on a connection is the client's to notice.
    let _ = tokio::time::timeout(LONGEST, connection).await;
}

async fn respond(request: Request<Incoming>, pages: &dyn Pages) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let body = tokio::time::timeout(PATIENCE, Limited::new(body, LARGEST_BODY).collect()).await;
    let Ok(Ok(body)) = body else { return wire(Answer::text(413, "request body too large\n")) };
    let question = Question {
        method: method(&head.method),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        accept: joined(&head.headers, &ACCEPT),
        accepts_gzip: joined(&head.headers, &ACCEPT_ENCODING).split(',').any(is_gzip),
        body: body.to_bytes().to_vec(),
    };
    let answer = match pages.slow(&question) {
        Some(page) => patiently(page).await,
        None => pages.answer(&question),
    };
    wire(answer)
}

/// Waits for a page on another thread. If the client goes, so does this, and the page is told.
async fn patiently(page: SlowPage) -> Answer {
    let gone = Gone::default();
    let is_gone = Arc::clone(&gone.0);
    let answer = tokio::task::spawn_blocking(move || page(&is_gone)).await;
    answer.unwrap_or_else(|_| Answer::text(500, "making this page failed\n"))
}

/// Says so when it is dropped.
#[derive(Default)]
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn method(method: &hyper::Method) -> Method {
    match *method {
        hyper::Method::GET | hyper::Method::HEAD => Method::Get,
        hyper::Method::PUT => Method::Put,
        hyper::Method::DELETE => Method::Delete,
        _ => Method::Other,
    }
}

fn joined(headers: &HeaderMap, name: &HeaderName) -> String {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.collect::<Vec<_>>().join(",")
}

fn is_gzip(coding: &str) -> bool {
    let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
    name.trim() == "gzip" && !weight.replace(' ', "").starts_with("q=0")
        || name.trim() == "gzip" && weight.replace(' ', "").starts_with("q=0.")
}

fn wire(answer: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in answer.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}
