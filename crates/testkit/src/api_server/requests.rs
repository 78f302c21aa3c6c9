//! A minimal client for tests. Does not watch: that is what the tests test.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::connection::Connection;
use super::{ADDRESS, ApiServer, ApiServerError, User};

const TIMEOUT: Duration = Duration::from_secs(30);
const JSON: &str = "application/json";

/// Connections that wait for the next request: handshakes take long where the processor is imitated.
#[derive(Debug, Default)]
pub(super) struct Idle(Mutex<Vec<Connection>>);

impl Idle {
    fn take(&self) -> Option<Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn put(&self, connection: Connection) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }

    /// Closes them all.
    pub(super) fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// An error response of the API server.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{method} {path}: the API server answered {status}: {message}")]
pub struct Refused {
    method: &'static str,
    path: String,
    /// The HTTP status.
    pub status: u16,
    message: String,
}

impl ApiServer {
    /// Gets the object or list at a path.
    pub fn get(&self, path: &str) -> Result<Value, ApiServerError> {
        self.request("GET", path, None)
    }

    /// Creates an object in the collection at a path.
    pub fn create(&self, path: &str, object: &Value) -> Result<Value, ApiServerError> {
        self.request("POST", path, Some((object, JSON)))
    }

    /// Replaces the object at a path.
    pub fn replace(&self, path: &str, object: &Value) -> Result<Value, ApiServerError> {
        self.request("PUT", path, Some((object, JSON)))
    }

    /// Applies a merge patch to the object at a path.
    pub fn patch(&self, path: &str, change: &Value) -> Result<Value, ApiServerError> {
        self.request("PATCH", path, Some((change, "application/merge-patch+json")))
    }

    /// Applies a patch that merges lists by their keys, as `kubectl patch` does.
    pub fn patch_strategically(&self, path: &str, change: &Value) -> Result<Value, ApiServerError> {
        self.request("PATCH", path, Some((change, "application/strategic-merge-patch+json")))
    }

    /// Deletes the object at a path.
    pub fn delete(&self, path: &str) -> Result<Value, ApiServerError> {
        self.request("DELETE", path, None)
    }

    fn request(
        &self,
        method: &'static str,
        path: &str,
        body: Option<(&Value, &str)>,
    ) -> Result<Value, ApiServerError> {
        let (body, media) = body.map_or((String::new(), JSON), |(body, media)| (body.to_string(), media));
        let text = format!(
            "{method} {path} HTTP/1.1\r\nHost: {ADDRESS}\r\nAuthorization: Bearer {}\r\n\
             Accept: application/json\r\nContent-Type: {media}\r\nContent-Length: {}\r\n\r\n{body}",
            User::Admin.token(),
            body.len()
        );
        let failed = |source| ApiServerError::Request { receiver: "the API server", source };
        let (status, content) = self.exchange(&text)?.map_err(failed)?;
        if (200..300).contains(&status) {
            // `/readyz` responds with plain text.
            return Ok(serde_json::from_slice(&content).unwrap_or(Value::Null));
        }
        let message = String::from_utf8_lossy(&content).into_owned();
        Err(Refused { method, path: path.into(), status, message }.into())
    }

    /// Status and body of the response, on a connection that waits or on a new one.
    fn exchange(&self, text: &str) -> Result<io::Result<(u16, Vec<u8>)>, ApiServerError> {
        let connection = match self.idle.take().filter(Connection::is_open) {
            Some(connection) => Ok(connection),
            None => self.namespace.run(|| Connection::open(connected(self.address())?, &self.ca))?,
        };
        Ok(connection.and_then(|mut connection| {
            let answer = connection.exchange(text)?;
            if !connection.is_last() {
                self.idle.put(connection);
            }
            Ok(answer)
        }))
    }
}

/// Posts to a server without TLS.
pub(super) fn plain(address: SocketAddr, path: &str, body: &Value) -> io::Result<Value> {
    let body = body.to_string();
    let text = format!(
        "POST {path} HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = connected(address)?;
    stream.write_all(text.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    match parsed(&answer)? {
        (200, content) => serde_json::from_slice(content).map_err(io::Error::other),
        (status, content) => {
            Err(io::Error::other(format!("{path}: {status}: {}", String::from_utf8_lossy(content))))
        }
    }
}

fn connected(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// Status and body of a response.
fn parsed(answer: &[u8]) -> io::Result<(u16, &[u8])> {
    let broken = || io::Error::other("a response that is not HTTP");
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").ok_or_else(broken)?;
    let head = std::str::from_utf8(&answer[..end]).map_err(|_| broken())?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(broken)?;
    Ok((status, &answer[end + 4..]))
}
