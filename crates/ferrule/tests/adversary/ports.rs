//! A network neighbour, or a pod, attacks the ports for health and metrics.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::table::{Seen, Table};
use crate::victim::Victim;

const WELL: &str = "health answers within 2 s, rules follow";
const PORTS: [u16; 2] = [10256, 10249];

pub fn attack(table: &mut Table) {
    table.group("network neighbour");
    let victim = Victim::new(&[]);
    let idle = if table.is_full() { 1500 } else { 600 };
    for port in PORTS {
        table.attack(format!("{idle} idle connections to {port}"), WELL, || {
            let held = connections(&victim, port, idle, b"");
            well(&victim, held)
        });
        table.attack(format!("200 connections to {port} that never finish their request"), WELL, || {
            let held = connections(&victim, port, 200, b"GET /healthz HTTP/1.1\r\nHost: ");
            well(&victim, held)
        });
    }
    table.attack("half a MiB of pipelined requests for /metrics, answers not read", WELL, || {
        let held = pipelined(&victim, 4);
        well(&victim, held)
    });
    table.attack("half a MiB of pipelined requests for /metrics, answers read", WELL, || {
        let held = pipelined(&victim, 4);
        let readers: Vec<_> = held.iter().filter_map(|stream| stream.try_clone().ok()).collect();
        let reading = readers.into_iter().map(|mut stream| {
            std::thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()).unwrap_or_default())
        });
        let reading: Vec<_> = reading.collect();
        let seen = (0..3).try_fold(String::new(), |_, _| victim.is_well());
        for stream in &held {
            // It may have been closed by the other side.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        let read: u64 = reading.into_iter().filter_map(|thread| thread.join().ok()).sum();
        seen.map(|seen| format!("{seen}; {} MiB were served meanwhile", read >> 20))
    });
    for (what, bytes) in garbage() {
        table.attack(what, WELL, || {
            let held: Vec<_> =
                PORTS.into_iter().flat_map(|port| connections(&victim, port, 5, &bytes)).collect();
            well(&victim, held)
        });
    }
    table.attack("requests to change something (PUT, DELETE, POST, …)", "no page changes anything", || {
        changes_nothing(&victim)
    });
    table.attack("paths that climb or repeat", "404, nothing of the file system", || {
        let paths = ["/../../etc/passwd", "//etc/passwd", "/metrics/../../etc/passwd", "/%2e%2e/etc/passwd"];
        refused(&victim, &paths, 404)
    });
    table.attack("a path that never ends", "431", || refused(&victim, &[&"/a".repeat(20_000)], 431));
}

/// kube-proxy answers each method as GET; the one page that takes a value is there with `enableProfiling` only.
fn changes_nothing(victim: &Victim) -> Seen {
    let page = |method: &str| exchange(victim, 10249, &format!("{method} /configz HTTP/1.0\r\n\r\n"));
    let body = |answer: &str| answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    let before = page("GET");
    for method in ["PUT", "DELETE", "POST", "PATCH", "BREW"] {
        let answer = page(method);
        if status(&answer) != Some(200) || body(&answer) != body(&before) {
            return Err(format!("{method}: {answer}"));
        }
        let request = format!("{method} /debug/flags/v HTTP/1.0\r\nContent-Length: 1\r\n\r\n9");
        let answer = exchange(victim, 10249, &request);
        if status(&answer) != Some(404) {
            return Err(format!("{method}: {answer}"));
        }
    }
    if body(&page("GET")) != body(&before) {
        return Err("the configuration changed".into());
    }
    victim.is_well()
}

fn refused(victim: &Victim, paths: &[&str], expected: u16) -> Seen {
    for path in paths {
        for port in PORTS {
            let answer = exchange(victim, port, &format!("GET {path} HTTP/1.0\r\n\r\n"));
            if status(&answer) != Some(expected) || answer.contains("root:") {
                return Err(format!("{path:.40} on {port}: {answer:.200}"));
            }
        }
    }
    victim.is_well()
}

fn status(answer: &str) -> Option<u16> {
    answer.split(' ').nth(1)?.parse().ok()
}

fn garbage() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("TLS to a port without it", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".repeat(40)),
        ("HTTP/2 without asking", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec()),
        ("a head of a megabyte", [b"GET / HTTP/1.1\r\nX: ".to_vec(), b"a".repeat(1 << 20)].concat()),
        ("ten thousand headers", [b"GET / HTTP/1.1\r\n".to_vec(), b"a: b\r\n".repeat(10_000)].concat()),
        (
            "a body of a terabyte, announced",
            b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1099511627776\r\n\r\nx".to_vec(),
        ),
        (
            "chunks of sizes that overflow",
            b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx".to_vec(),
        ),
        ("bytes of anything", (0..=255_u8).cycle().take(100_000).collect()),
    ]
}

fn well(victim: &Victim, held: Vec<TcpStream>) -> Seen {
    let seen = victim.is_well();
    drop(held);
    seen
}

/// Connections that say something and then nothing more.
fn connections(victim: &Victim, port: u16, count: usize, words: &[u8]) -> Vec<TcpStream> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let open = || {
        let one = || {
            let mut stream = TcpStream::connect_timeout(&address, Duration::from_millis(500)).ok()?;
            stream.set_write_timeout(Some(Duration::from_millis(500))).ok()?;
            // Who does not want to hear it may close.
            let _ = stream.write_all(words);
            Some(stream)
        };
        (0..count).filter_map(|_| one()).collect()
    };
    let held: Vec<TcpStream> = victim.stand.net.node().run(open).expect("the node");
    assert!(held.len() * 10 >= count * 9, "only {} of {count} connections to {port}", held.len());
    held
}

fn pipelined(victim: &Victim, count: usize) -> Vec<TcpStream> {
    let request = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
    let half_a_mib = request.repeat((512 << 10) / request.len());
    connections(victim, 10249, count, &half_a_mib)
}

fn exchange(victim: &Victim, port: u16, request: &str) -> String {
    let ask = || {
        let mut stream = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        Some(String::from_utf8_lossy(&answer).into_owned())
    };
    victim.stand.net.node().run(ask).expect("the node").unwrap_or_default()
}
