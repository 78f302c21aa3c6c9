//! The API server's store, written to directly: on two cores the API server itself takes some 600 changes a second, and what is
//! to be measured is who watches it. It hands such changes to watches like any other.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use ferrule_testkit::api_server::ETCD;
use serde_json::{Value, json};

/// A connection to etcd's gateway, which takes JSON over HTTP.
pub struct Store(BufReader<TcpStream>);

impl Store {
    pub fn connect() -> io::Result<Self> {
        let stream = TcpStream::connect(ETCD)?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Puts a value, and returns when etcd has it.
    pub fn put(&mut self, key: &str, value: &Value) -> io::Result<()> {
        let body = json!({ "key": base64(key.as_bytes()), "value": base64(value.to_string().as_bytes()) });
        let body = body.to_string();
        let head =
            format!("POST /v3/kv/put HTTP/1.1\r\nHost: etcd\r\nContent-Length: {}\r\n\r\n", body.len());
        self.0.get_mut().write_all((head + &body).as_bytes())?;
        self.answer()
    }

    fn answer(&mut self) -> io::Result<()> {
        let mut status = String::new();
        self.0.read_line(&mut status)?;
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line)?;
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            length =
                line.strip_prefix("content-length: ").and_then(|text| text.parse().ok()).unwrap_or(length);
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        if status.contains(" 200 ") { Ok(()) } else { Err(io::Error::other(status)) }
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = char::from(LETTERS[(bits >> (18 - 6 * at) & 63) as usize]);
            text.push(if at <= three.len() { letter } else { '=' });
        }
    }
    text
}
