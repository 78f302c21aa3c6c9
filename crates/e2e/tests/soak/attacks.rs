//! Attackers beside everything else, where a run asks for them: on the ports, with objects, and as another root whose meddling
//! harms no connection by itself. So none of it excuses a failed one.

use std::io::Write as _;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread::Scope;
use std::time::Duration;

use ferrule_testkit::api_server::objects_path;
use serde_json::json;

use crate::Run;
use crate::site::Site;

const PORTS: [u16; 2] = [10256, 10249];
const TIMEOUT: Duration = Duration::from_millis(500);
/// Between two attacks of one attacker.
const PAUSE: Duration = Duration::from_secs(1);

/// Each an nft command that a repair must undo and that no packet feels.
const MEDDLING: [&str; 6] = [
    "add set ip kube-proxy mine { type ipv4_addr; }",
    "add counter ip kube-proxy mine",
    "add chain ip kube-proxy mine",
    "add chain ip kube-proxy cluster-77 { type filter hook input priority 5; policy accept; }",
    "insert rule ip kube-proxy services counter",
    "add rule ip kube-proxy masquerading counter",
];

/// Whether the run asks for attackers.
pub fn are_wanted() -> bool {
    std::env::var_os("SOAK_ATTACKS").is_some()
}

/// Attacks until the run is over.
pub fn start<'scope, 'env>(scope: &'scope Scope<'scope, 'env>, site: &'env Site, run: &'env Run) {
    scope.spawn(|| again_and_again(run, |turn| idle(site, turn)));
    scope.spawn(|| again_and_again(run, |_| pipelined(site)));
    scope.spawn(|| again_and_again(run, |turn| meddle(site, turn)));
    scope.spawn(|| again_and_again(run, |turn| claim(site, turn)));
}

fn again_and_again(run: &Run, mut attack: impl FnMut(usize)) {
    for turn in 0.. {
        if !run.goes_on() {
            return;
        }
        attack(turn);
        run.pause(PAUSE);
    }
}

/// Connections that say half a request, or nothing.
fn idle(site: &Site, turn: usize) {
    let words: &[u8] = if turn.is_multiple_of(2) { b"" } else { b"GET /healthz HTTP/1.1\r\nHost: " };
    let held: Vec<_> = (0..300).filter_map(|nth| connected(site, PORTS[nth % PORTS.len()], words)).collect();
    drop(held);
}

/// Requests one after the other, whose answers are read.
fn pipelined(site: &Site) {
    let request = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
    let Some(mut stream) = connected(site, 10249, &request.repeat(2000)) else { return };
    let _ = stream.set_read_timeout(Some(TIMEOUT));
    let _ = std::io::copy(&mut stream, &mut std::io::sink());
    let _ = stream.shutdown(Shutdown::Both);
}

/// The table may be away for a moment, since others delete it too.
fn meddle(site: &Site, turn: usize) {
    let _ = site.net.node().feed("nft", &[MEDDLING[turn % MEDDLING.len()]], "");
}

/// A tenant claims addresses that are served, and takes the claim back.
fn claim(site: &Site, turn: usize) {
    let name = format!("thief-{}", turn % 20);
    let service = json!({
        "metadata": { "name": name },
        "spec": { "externalIPs": [crate::site::VIP, crate::site::WEB, crate::site::API],
                  "sessionAffinity": "ClientIP", "ports": [{ "name": "http", "port": 80 }] },
    });
    let path = objects_path("default", "services");
    // The API server may be away, and may have it from last time.
    let _ = site.server.create(&path, &service);
    let _ = site.server.delete(&format!("{path}/thief-{}", (turn + 10) % 20));
}

fn connected(site: &Site, port: u16, words: &[u8]) -> Option<TcpStream> {
    let connect = || {
        let mut stream =
            TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), TIMEOUT).ok()?;
        stream.set_write_timeout(Some(TIMEOUT)).ok()?;
        let _ = stream.write_all(words);
        Some(stream)
    };
    site.net.node().run(connect).ok().flatten()
}
