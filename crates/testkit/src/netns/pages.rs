//! HTTP pages that a program serves on the loopback address of a namespace.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use super::Namespace;

const TIMEOUT: Duration = Duration::from_mins(1);

impl Namespace {
    /// The body of a page, whatever its status; `None` without a response.
    pub fn page(&self, port: u16, path: &str) -> Option<String> {
        Some(self.answer(port, path)?.split_once("\r\n\r\n")?.1.to_owned())
    }

    /// The HTTP status of a page.
    pub fn page_status(&self, port: u16, path: &str) -> Option<u16> {
        self.answer(port, path)?.split(' ').nth(1)?.parse().ok()
    }

    fn answer(&self, port: u16, path: &str) -> Option<String> {
        let request = || -> io::Result<String> {
            let mut stream = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), TIMEOUT)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        self.run(request).ok()?.ok()
    }
}
