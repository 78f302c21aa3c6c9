//! A minimal client for tests: one request per connection.
//!
//! Uses HTTP/1.0, so a response ends with its connection. Does not watch: that is what the tests test.

use std::io::{self, Read as _, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

use super::{ADDRESS, ApiServer, ApiServerError, User};

const TIMEOUT: Duration = Duration::from_secs(30);

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
        self.request("POST", path, Some(object))
    }

    /// Replaces the object at a path.
    pub fn replace(&self, path: &str, object: &Value) -> Result<Value, ApiServerError> {
        self.request("PUT", path, Some(object))
    }

    /// Applies a merge patch to the object at a path.
    pub fn patch(&self, path: &str, change: &Value) -> Result<Value, ApiServerError> {
        self.request("PATCH", path, Some(change))
    }

    /// Deletes the object at a path.
    pub fn delete(&self, path: &str) -> Result<Value, ApiServerError> {
        self.request("DELETE", path, None)
    }

    fn request(
        &self,
        method: &'static str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, ApiServerError> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let text = format!(
            "{method} {path} HTTP/1.0\r\nHost: {ADDRESS}\r\nAuthorization: Bearer {}\r\n\
             Accept: application/json\r\nContent-Type: {media}\r\nContent-Length: {}\r\n\r\n{body}",
            User::Admin.token(),
            body.len()
        );
        let failed = |source| ApiServerError::Request { receiver: "the API server", source };
        let tls = client_config(&self.authority.pem()).map_err(failed)?;
        let address = self.address();
        let answer = self.namespace.run(|| secure(address, tls, &text))?.map_err(failed)?;
        let (status, content) = parsed(&answer).map_err(failed)?;
        if (200..300).contains(&status) {
            // `/readyz` responds with plain text.
            return Ok(serde_json::from_slice(content).unwrap_or(Value::Null));
        }
        let message = String::from_utf8_lossy(content).into_owned();
        Err(Refused { method, path: path.into(), status, message }.into())
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

fn secure(address: SocketAddr, config: Arc<ClientConfig>, text: &str) -> io::Result<Vec<u8>> {
    let name = ServerName::IpAddress(address.ip().into());
    let session = ClientConnection::new(config, name).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(session, connected(address)?);
    stream.write_all(text.as_bytes())?;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        // A response that was cut off fails to parse.
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
        _ => Ok(answer),
    }
}

fn connected(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

fn client_config(ca: &str) -> io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(ca.as_bytes()).map_err(io::Error::other)?;
    roots.add(certificate).map_err(io::Error::other)?;
    Ok(Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()))
}

/// Status and body of a response.
fn parsed(answer: &[u8]) -> io::Result<(u16, &[u8])> {
    let broken = || io::Error::other("a response that is not HTTP");
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").ok_or_else(broken)?;
    let head = std::str::from_utf8(&answer[..end]).map_err(|_| broken())?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(broken)?;
    Ok((status, &answer[end + 4..]))
}
