//! Speaks HTTP/1.1: accepts connections, bounds their cost, calls the handler.
//!
//! No client can hold a port: [`super::connections`] limits the number of connections, and the time and size of a request are
//! limited here. Pipelined requests take turns with those of other connections.

use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::warn;

use super::connections::{ConnectionGuard, ConnectionPermit, Connections, PortKind};
use super::event_stream::{self, Body};
use super::guarded_stream::GuardedStream;
use super::{BlockingResponse, EventStream, Handler, Method, Request, Response};
use crate::panics::{Panicked, contained, contained_future};

/// How long a client may take to send a request, and may be idle after a response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a client may read nothing of its response.
const WRITE_STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection lasts no longer than this, whatever happens on it.
const MAX_CONNECTION_AGE: Duration = Duration::from_mins(10);
/// The maximum length of a request's head, and so of what is read ahead of pipelined requests.
const MAX_HEAD_BYTES: usize = 16 * 1024;
const MAX_BODY_BYTES: usize = 4096;
/// The pause after a failure to accept, for example without free descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Serves a handler on a port.
pub struct Server {
    /// Makes the responses.
    pub handler: Arc<dyn Handler>,
    /// The kind of port, which has a share of the connections.
    pub kind: PortKind,
    /// The connections of all ports.
    pub connections: Arc<Connections>,
    /// Limits concurrent blocking responses.
    pub blocking_permits: Arc<Semaphore>,
}

impl Server {
    /// Serves on a listening socket, TCP or unix, until the future is dropped; its connections end with it.
    pub async fn serve(self: Arc<Self>, listener: OwnedFd) -> io::Result<Infallible> {
        rustix::io::ioctl_fionbio(&listener, true)?;
        // tokio's listener cannot be waited for without accepting. A stream can, and is just a socket of any family.
        let listener = TcpStream::from_std(listener.into())?;
        let mut open = JoinSet::new();
        loop {
            listener.readable().await?;
            // Before accepting, so that the limit is never exceeded.
            let permit = self.connections.acquire(self.kind).await;
            while open.try_join_next().is_some() {}
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match listener.try_io(Interest::READABLE, || Ok(accept_with(&listener, flags)?)) {
                Ok(socket) => {
                    self.connections.accepted();
                    self.serve_connection(socket, permit, &mut open);
                    // A flood of new connections must not starve the open ones.
                    tokio::task::yield_now().await;
                }
                // The client is gone already, or there was none.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock || is_about_one_client(&error) => {}
                Err(error) => {
                    drop(permit);
                    if self.connections.accept_failed() {
                        warn!(err = %error, "Cannot accept connections, closing idle ones");
                    }
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
    }

    fn serve_connection(self: &Arc<Self>, socket: OwnedFd, permit: ConnectionPermit, open: &mut JoinSet<()>) {
        let guard = Arc::new(self.connections.register(self.kind, permit));
        let (id, server) = (guard.id(), Arc::clone(self));
        let serving = async move {
            if let Err(panicked) = contained_future(server.run_connection(socket, guard)).await {
                panicked.log("a connection");
            }
        };
        self.connections.set_task(id, open.spawn(serving));
    }

    /// Errors of a connection are not logged: the client notices.
    async fn run_connection(self: Arc<Self>, socket: OwnedFd, guard: Arc<ConnectionGuard>) {
        let Ok(stream) = TcpStream::from_std(socket.into()) else { return };
        let stream = GuardedStream::new(stream, Arc::clone(&guard), WRITE_STALL_TIMEOUT);
        let service = service_fn(move |request| {
            let (server, guard) = (Arc::clone(&self), Arc::clone(&guard));
            async move { Ok::<_, Infallible>(server.respond(request, &guard).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(REQUEST_TIMEOUT)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        let _ = tokio::time::timeout(MAX_CONNECTION_AGE, connection).await;
    }

    async fn respond(
        &self,
        request: hyper::Request<Incoming>,
        guard: &ConnectionGuard,
    ) -> hyper::Response<Body> {
        let request = read_request(request).await;
        // Other connections take their turn, however many requests are pipelined on this one.
        tokio::task::yield_now().await;
        let events = request.as_ref().and_then(|request| self.events(request));
        let response = match (events, request) {
            (Some(Ok(stream)), _) => {
                guard.response_started(0);
                return to_hyper(event_stream::head(), Body::events(stream));
            }
            (Some(Err(response)), _) => response,
            (None, Some(request)) => self.handle(&request, guard).await,
            (None, None) => Response::text(413, "request body too large\n"),
        };
        let response = if self.connections.reserve_memory(self.kind, response.body.len()) {
            response
        } else {
            Response::text(503, "too many responses are waiting to be read\n")
        };
        guard.response_started(response.body.len());
        let body = Body::whole(response.body.clone());
        to_hyper(response, body)
    }

    fn events(&self, request: &Request) -> Option<Result<EventStream, Response>> {
        contained(|| self.handler.events(request)).unwrap_or_else(|panicked| {
            panicked.log(&request.path);
            Some(Err(Response::text(500, "the handler of this page failed\n")))
        })
    }

    async fn handle(&self, request: &Request, guard: &ConnectionGuard) -> Response {
        let response = match contained(|| self.handler.handle_blocking(request)) {
            Ok(Some(response)) => {
                let Ok(_permit) = self.blocking_permits.try_acquire() else {
                    return Response::text(503, "too many such requests at a time, try again later\n");
                };
                guard.blocking_started();
                run_blocking(response).await
            }
            Ok(None) => contained(|| self.handler.handle(request)),
            Err(panicked) => Err(panicked),
        };
        response.unwrap_or_else(|panicked| {
            panicked.log(&request.path);
            Response::text(500, "the handler of this page failed\n")
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

/// Reads a request completely; `None` if its body is too long or too slow.
async fn read_request(request: hyper::Request<Incoming>) -> Option<Request> {
    let (head, body) = request.into_parts();
    let body = tokio::time::timeout(REQUEST_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await;
    let Ok(Ok(body)) = body else { return None };
    Some(Request {
        method: method(&head.method),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        accept: joined(&head.headers, &ACCEPT),
        accepts_gzip: joined(&head.headers, &ACCEPT_ENCODING).split(',').any(is_gzip),
        body: body.to_bytes().to_vec(),
    })
}

/// Makes a response on another thread. If the client disconnects this future is dropped, which sets the flag.
async fn run_blocking(response: BlockingResponse) -> Result<Response, Panicked> {
    let cancel = CancelOnDrop::default();
    let is_cancelled = Arc::clone(&cancel.0);
    let task = tokio::task::spawn_blocking(move || contained(|| response(&is_cancelled)));
    task.await.unwrap_or_else(|_| Ok(Response::text(500, "the server is shutting down\n")))
}

#[derive(Default)]
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
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

fn to_hyper(response: Response, body: Body) -> hyper::Response<Body> {
    let Response { status, headers, body: _ } = response;
    let mut response = hyper::Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}

#[cfg(test)]
mod tests;
