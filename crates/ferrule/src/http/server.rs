//! Talks HTTP/1.1: takes connections, bounds what each may cost, asks the pages.
//!
//! Nobody can hold a port: [`super::connections`] bounds how many connections there are, and here the time and size of what a
//! request may say before it is answered are bounded. Requests that come one behind the other on a connection take turns with
//! those of other connections.

use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
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
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::warn;

use super::connections::{Connections, Place, PortKind, Room};
use super::guarded_stream::GuardedStream;
use super::{Answer, Method, Pages, Question, SlowPage};
use crate::panics::{Panicked, contained, contained_future};

/// So long a client may take to say what it wants, and may be silent after an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// So long a client may take nothing of its answer.
const MAX_STALL: Duration = Duration::from_secs(10);
/// A connection lasts no longer than this, whatever happens on it.
const LONGEST: Duration = Duration::from_mins(10);
/// What a request's head may be long, and with it what is read ahead of requests that wait for their turn.
const LARGEST_HEAD: usize = 16 * 1024;
/// What may be sent along with a request.
const LARGEST_BODY: usize = 4096;
/// After a failure to accept (no descriptors left, say), there is a pause.
const PAUSE: Duration = Duration::from_millis(50);

/// Pages on a port.
pub struct Server {
    /// What is answered.
    pub pages: Arc<dyn Pages>,
    /// What the port is for.
    pub kind: PortKind,
    /// The connections of all ports.
    pub connections: Arc<Connections>,
    /// Slow pages that may be made at a time.
    pub slow_pages: Arc<Semaphore>,
}

impl Server {
    /// Serves on a socket until it is cancelled; its connections end with it.
    pub async fn serve(self: Arc<Self>, listener: std::net::TcpListener) -> io::Result<Infallible> {
        listener.set_nonblocking(true)?;
        // tokio's listener cannot be waited for without accepting. A stream can, and is nothing but a socket.
        let listener = TcpStream::from_std(OwnedFd::from(listener).into())?;
        let mut open = JoinSet::new();
        loop {
            listener.readable().await?;
            // Before there is another socket, so that there are never more than may be.
            let room = self.connections.room(self.kind).await;
            while open.try_join_next().is_some() {}
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match listener.try_io(Interest::READABLE, || Ok(accept_with(&listener, flags)?)) {
                Ok(socket) => {
                    self.connections.is_not_exhausted();
                    self.attend(socket, room, &mut open);
                    // Whoever connects without end must not keep those who are connected from being served.
                    tokio::task::yield_now().await;
                }
                // The client went away in the meantime, or is none.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock || is_about_one_client(&error) => {}
                Err(error) => {
                    drop(room);
                    if self.connections.is_exhausted() {
                        warn!(err = %error, "Cannot accept connections, idle ones are closed");
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn attend(self: &Arc<Self>, socket: OwnedFd, room: Room, open: &mut JoinSet<()>) {
        let place = Arc::new(self.connections.enter(self.kind, room));
        let (id, server) = (place.id(), Arc::clone(self));
        let serving = async move {
            if let Err(panicked) = contained_future(server.converse(socket, place)).await {
                panicked.tell("a connection");
            }
        };
        self.connections.served_by(id, open.spawn(serving));
    }

    /// What goes wrong on a connection is the client's to notice.
    async fn converse(self: Arc<Self>, socket: OwnedFd, place: Arc<Place>) {
        let Ok(stream) = TcpStream::from_std(socket.into()) else { return };
        let stream = GuardedStream::new(stream, Arc::clone(&place), MAX_STALL);
        let answering = service_fn(move |request| {
            let (server, place) = (Arc::clone(&self), Arc::clone(&place));
            async move { Ok::<_, Infallible>(server.respond(request, &place).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(PATIENCE)
            .max_buf_size(LARGEST_HEAD)
            .serve_connection(TokioIo::new(stream), answering);
        let _ = tokio::time::timeout(LONGEST, connection).await;
    }

    async fn respond(&self, request: Request<Incoming>, place: &Place) -> Response<Full<Bytes>> {
        let question = question(request).await;
        // The turn of others, however many requests wait on this connection.
        tokio::task::yield_now().await;
        let answer = match question {
            Some(question) => self.answer(&question, place).await,
            None => Answer::text(413, "request body too large\n"),
        };
        let answer = if self.connections.has_memory_for(self.kind, answer.body.len()) {
            answer
        } else {
            Answer::text(503, "too many answers wait to be read\n")
        };
        place.is_answered(answer.body.len());
        wire(answer)
    }

    async fn answer(&self, question: &Question, place: &Place) -> Answer {
        let answer = match contained(|| self.pages.slow(question)) {
            Ok(Some(page)) => {
                let Ok(_turn) = self.slow_pages.try_acquire() else {
                    return Answer::text(503, "others wait for such pages already, ask again later\n");
                };
                place.waits_for_slow_page();
                patiently(page).await
            }
            Ok(None) => contained(|| self.pages.answer(question)),
            Err(panicked) => Err(panicked),
        };
        answer.unwrap_or_else(|panicked| {
            panicked.tell(&question.path);
            Answer::text(500, "making this page failed\n")
        })
    }
}

fn is_about_one_client(error: &io::Error) -> bool {
    // Errors that were pending on the new socket come out here, too: see accept(2).
    let codes = [
        Errno::CONNABORTED,
        Errno::CONNRESET,
        Errno::INTR,
        Errno::NETDOWN,
        Errno::PROTO,
        Errno::NOPROTOOPT,
        Errno::HOSTDOWN,
        Errno::HOSTUNREACH,
        Errno::NETUNREACH,
        Errno::OPNOTSUPP,
        Errno::PERM,
    ];
    codes.iter().any(|code| error.raw_os_error() == Some(code.raw_os_error()))
}

/// What is asked; `None` if too much is sent along, or too slowly.
async fn question(request: Request<Incoming>) -> Option<Question> {
    let (head, body) = request.into_parts();
    let body = tokio::time::timeout(PATIENCE, Limited::new(body, LARGEST_BODY).collect()).await;
    let Ok(Ok(body)) = body else { return None };
    Some(Question {
        method: method(&head.method),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        accept: joined(&head.headers, &ACCEPT),
        accepts_gzip: joined(&head.headers, &ACCEPT_ENCODING).split(',').any(is_gzip),
        body: body.to_bytes().to_vec(),
    })
}

/// Waits for a page on another thread. If the client goes, so does this, and the page is told.
async fn patiently(page: SlowPage) -> Result<Answer, Panicked> {
    let gone = Gone::default();
    let is_gone = Arc::clone(&gone.0);
    let making = tokio::task::spawn_blocking(move || contained(|| page(&is_gone)));
    making.await.unwrap_or_else(|_| Ok(Answer::text(500, "this page is not made any more\n")))
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
    let mut response = Response::new(Full::new(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in answer.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}

#[cfg(test)]
mod tests;
