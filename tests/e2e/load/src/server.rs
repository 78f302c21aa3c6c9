//! The servers: what a client sends comes back, until it closes.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv6Addr, TcpListener, TcpStream};

/// Serves all who connect, for ever.
pub fn serve(port: u16) -> io::Result<()> {
    for stream in TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))?.incoming() {
        let stream = stream?;
        // A client that goes away is its own business.
        std::thread::Builder::new().stack_size(64 * 1024).spawn(move || echo(stream).ok())?;
    }
    Ok(())
}

fn echo(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut bytes = [0; 256];
    loop {
        match stream.read(&mut bytes)? {
            0 => return Ok(()),
            length => stream.write_all(&bytes[..length])?,
        }
    }
}
