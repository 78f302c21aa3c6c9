//! Asks the running proxy over its unix socket.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use ferrule_config::cli::flags;
use serde::de::DeserializeOwned;

use super::ToolError;
use super::options::Given;
use crate::questions::query::Parameters;

/// Reading all rules of a large cluster may take some seconds, and another question may be served before.
const TIMEOUT: Duration = Duration::from_mins(1);
/// The plan of 45,000 Services has some ten megabytes.
const MAX_ANSWER: u64 = 256 << 20;

/// The proxy at one path.
pub(super) struct Client {
    path: String,
}

impl Client {
    pub(super) fn of(given: &Given) -> Self {
        let default = || flags::find(flags::INSPECT_SOCKET).map_or("", |flag| flag.default);
        Self { path: given.value("inspect-socket").unwrap_or_else(default).to_owned() }
    }

    /// Whether a process listens there.
    pub(super) fn is_answered(&self) -> bool {
        UnixStream::connect(&self.path).is_ok()
    }

    /// Asks for a page, and reads its JSON.
    pub(super) fn ask<T: DeserializeOwned>(
        &self,
        page: &str,
        parameters: &Parameters,
    ) -> Result<T, ToolError> {
        let path = &self.path;
        let (status, body) = self.get(page, parameters).map_err(|error| {
            ToolError(format!(
                "no proxy answers at {path}: {error}. It listens there while it runs as root (--inspect-socket); \
                 plan, explain and diff alone work without it from --manifests DIR"
            ))
        })?;
        let unreadable =
            |error: serde_json::Error| ToolError(format!("the answer from {path} cannot be read: {error}"));
        if status == 200 {
            return serde_json::from_slice(&body).map_err(unreadable);
        }
        let problem: serde_json::Value = serde_json::from_slice(&body).map_err(unreadable)?;
        Err(ToolError(problem["error"].as_str().unwrap_or("the proxy gave no reason").to_owned()))
    }

    fn get(&self, page: &str, parameters: &Parameters) -> std::io::Result<(u16, Vec<u8>)> {
        let mut stream = UnixStream::connect(&self.path)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let query = parameters.encoded();
        write!(
            stream,
            "GET /ferrule/v1/{page}?{query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )?;
        let mut response = Vec::new();
        stream.take(MAX_ANSWER).read_to_end(&mut response)?;
        parsed(&response).ok_or_else(|| std::io::Error::other("the answer is not complete"))
    }
}

/// The status and the body of a response that ends with the connection.
fn parsed(response: &[u8]) -> Option<(u16, Vec<u8>)> {
    let end = response.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(response.get(..end)?).ok()?;
    let body = response.get(end + 4..)?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    let length = lines
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))?
        .1
        .trim()
        .parse::<usize>()
        .ok()?;
    (body.len() == length).then(|| (status, body.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::parsed;

    #[test]
    fn an_answer_that_was_cut_off_is_no_answer() {
        let whole = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(parsed(whole), Some((400, b"{}".to_vec())));
        for end in 0..whole.len() {
            assert_eq!(parsed(&whole[..end]), None, "{end}");
        }
    }
}
