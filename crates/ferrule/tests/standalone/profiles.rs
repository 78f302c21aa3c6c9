//! Profiles of the running program, asked for as its users do.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use ferrule_testkit::netns::or_skip;
use flate2::read::GzDecoder;

use crate::stand::{PATIENCE, PODS, Stand, service, slice, until};

struct Page {
    head: String,
    body: Vec<u8>,
}

impl Page {
    fn is(&self, status: u16) -> bool {
        self.head.starts_with(&format!("HTTP/1.0 {status} "))
    }
}

fn get(stand: &Stand, path: &str) -> io::Result<Page> {
    let ask = || {
        let mut stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, 10249)))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let end = end.ok_or_else(|| io::Error::other("no answer"))?;
        let body = bytes.split_off(end + 4);
        io::Result::Ok(Page { head: String::from_utf8_lossy(&bytes).into_owned(), body })
    };
    stand.net.node().run(ask).expect("the node")
}

fn serving(more: &[&str]) -> (Stand, ferrule_testkit::Program) {
    let stand = Stand::new();
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS)));
    let program = stand.start(more);
    until(|| get(&stand, "/healthz").ok());
    (stand, program)
}

/// Uncompressed, so that names can be looked for.
fn text(profile: &[u8]) -> String {
    let mut plain = Vec::new();
    GzDecoder::new(profile).read_to_end(&mut plain).expect("gzip");
    String::from_utf8_lossy(&plain).into_owned()
}

fn go() -> Option<PathBuf> {
    let places = ["go", "/usr/local/go/bin/go"];
    places.iter().map(PathBuf::from).find(|go| Command::new(go).arg("version").output().is_ok())
}

#[expect(clippy::print_stderr, reason = "a part that is passed over must say so")]
/// What `go tool pprof` makes of it; `None` where there is no Go.
fn top(profile: &[u8], folder: &Path) -> Option<String> {
    let Some(go) = go() else {
        eprintln!("skipped: no Go, so pprof itself was not asked");
        return None;
    };
    let file = folder.join(".profile");
    std::fs::write(&file, profile).expect("a file");
    let output = Command::new(go).args(["tool", "pprof", "-top", "-nodecount=400"]).arg(&file).output();
    let output = output.expect("pprof runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Row: server 4.2
#[test]
fn the_processor_is_profiled_while_other_pages_are_served() {
    if !or_skip() {
        return;
    }
    let (stand, program) = serving(&["--profiling"]);
    let profile = thread::scope(|scope| {
        let taking = scope.spawn(|| get(&stand, "/debug/pprof/profile?seconds=3").expect("a profile"));
        let mut scrapes = 0;
        let mut refusal = None;
        while !taking.is_finished() {
            assert!(get(&stand, "/metrics").expect("a scrape").is(200));
            // A scrape is shared for a while; what keeps the processor busy is every other page.
            for _ in 0..10 {
                assert!(get(&stand, "/configz").expect("the configuration").is(200));
            }
            scrapes += 1;
            if scrapes == 20 {
                refusal = Some(get(&stand, "/debug/pprof/profile?seconds=1").expect("an answer"));
            }
        }
        assert!(scrapes > 20, "{scrapes} scrapes in three seconds");
        let refusal = refusal.expect("it was asked for");
        assert!(
            refusal.is(500) && String::from_utf8_lossy(&refusal.body).contains("another"),
            "{}",
            refusal.head
        );
        taking.join().expect("no panic")
    });
    assert!(profile.is(200), "{}", profile.head);
    assert!(text(&profile.body).contains("ferrule::http"), "no name of what it was busy with");
    if let Some(top) = top(&profile.body, stand.folder()) {
        assert!(top.contains("Type: cpu") && top.contains("ferrule::http"), "{top}");
    }
    assert!(program.terminate().expect("it ends").success());
}

/// Row: server 4.2
#[test]
fn memory_in_use_is_told_by_who_allocated_it() {
    if !or_skip() {
        return;
    }
    let (stand, _program) = serving(&["--profiling"]);
    // Enough that some of it is met for certain.
    let many: String = (0..4000).map(|nth| many(nth) + "---\n").collect();
    stand.write("many.yaml", &many);
    until(|| get(&stand, "/metrics").ok().filter(|page| has_written(&page.body, 4000)));
    let heap = get(&stand, "/debug/pprof/heap").expect("an answer");
    assert!(heap.is(200), "{}", heap.head);
    assert!(text(&heap.body).contains("ferrule_"), "no names");
    if let Some(top) = top(&heap.body, stand.folder()) {
        assert!(top.contains("Type: inuse_space") && top.contains("ferrule_"), "{top}");
    }
    let symbol = get(&stand, "/debug/pprof/symbol").expect("an answer");
    assert_eq!(symbol.body, b"num_symbols: 0\n");
    let command_line = get(&stand, "/debug/pprof/cmdline").expect("an answer").body;
    assert!(command_line.ends_with(b"\0--profiling"));
}

#[test]
fn a_client_that_goes_takes_its_profile_with_it() {
    if !or_skip() {
        return;
    }
    let (stand, _program) = serving(&["--profiling"]);
    let begin = || {
        let mut stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, 10249)))?;
        write!(stream, "GET /debug/pprof/profile?seconds=300 HTTP/1.1\r\nHost: node\r\n\r\n").map(|()| stream)
    };
    let stream = stand.net.node().run(begin).expect("the node").expect("a connection");
    until(|| get(&stand, "/debug/pprof/profile?seconds=1").ok().filter(|page| page.is(500)));
    drop(stream);
    until(|| get(&stand, "/debug/pprof/profile?seconds=1").ok().filter(|page| page.is(200)));
}

/// Row: server 4.2
#[test]
fn nobody_is_profiled_who_did_not_allow_it() {
    if !or_skip() {
        return;
    }
    let (stand, _program) = serving(&[]);
    for page in ["", "/", "/profile", "/heap", "/cmdline"] {
        let answer = get(&stand, &format!("/debug/pprof{page}")).expect("an answer");
        assert!(answer.is(404) && answer.body == b"404 page not found\n", "{page}: {}", answer.head);
    }
}

fn many(nth: usize) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: many-{nth}, namespace: default}}\nspec:\n  \
         clusterIP: 10.97.{}.{}\n  ports: [{{name: http, port: 80}}]\n",
        nth / 250,
        nth % 250 + 1
    )
}

fn has_written(metrics: &[u8], objects: u64) -> bool {
    let text = String::from_utf8_lossy(metrics);
    let prefix = "ferrule_sync_objects_written_total{ip_family=\"IPv4\"} ";
    let written = text.lines().find_map(|line| line.strip_prefix(prefix)?.parse::<u64>().ok());
    written.is_some_and(|written| written >= objects)
}
