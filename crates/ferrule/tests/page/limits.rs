//! What the page and its stream cost at most, asked without a browser.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};

use ferrule_testkit::netns::or_skip;

use crate::stand::{PATIENCE, PODS, Stand, service, slice, until};

const PORT: u16 = 10249;
/// As many streams as there may be.
const STREAMS: usize = 8;

fn request(stand: &Stand, text: &str) -> BufReader<TcpStream> {
    let connect = || {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        write!(stream, "{text} HTTP/1.1\r\nHost: x\r\n\r\n").expect("asked");
        stream
    };
    BufReader::new(stand.net.node().run(connect).expect("the node"))
}

/// Reads until a line contains this.
fn read_until(reader: &mut BufReader<TcpStream>, wanted: &str) -> String {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(reader.read_line(&mut line).expect("a line") > 0, "ended before {wanted:?}");
        if line.contains(wanted) {
            return line;
        }
    }
}

#[test]
fn streams_are_few_follow_what_happens_and_end_with_the_process() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    let program = stand.serve();
    let listen = || request(&stand, "GET /ferrule/v1/events");
    let mut streams: Vec<_> = (0..STREAMS).map(|_| listen()).collect();
    for stream in &mut streams {
        read_until(stream, "text/event-stream");
        read_until(stream, "data: {");
    }
    read_until(&mut listen(), "503");
    // Whose client is gone makes room.
    drop(streams.pop());
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS)));
    for stream in &mut streams {
        read_until(stream, "\"changes\":2");
    }
    until(|| {
        let mut line = String::new();
        let mut stream = listen();
        stream.read_line(&mut line).expect("a line");
        line.contains("200").then_some(stream)
    });
    assert!(program.terminate().expect("it ends").success());
    for mut stream in streams {
        let mut rest = Vec::new();
        // Cut or closed, as the process ended.
        let _ = stream.read_to_end(&mut rest);
    }
}

#[test]
fn the_page_can_be_switched_off_and_changes_nothing() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    let status = |path: &str| stand.net.node().page_status(PORT, path);
    let program = stand.serve();
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        for path in [
            "/ferrule/",
            "/ferrule/app.js",
            "/ferrule/v1/services",
            "/ferrule/v1/history",
            "/ferrule/v1/events",
        ] {
            read_until(&mut request(&stand, &format!("{method} {path}")), "HTTP/1.1 405");
        }
    }
    for path in
        ["/ferrule/", "/ferrule/page.css", "/ferrule/v1/history", "/ferrule/v1/services?limit=1000000"]
    {
        assert_eq!(status(path), Some(200), "{path}");
    }
    let hostile = [
        "services?limit=x",
        "services?offset=-1",
        "services?state=%00",
        "services?x=y",
        "service",
        "service?service=a",
        "service?service=a/b",
        "history?x",
        &*format!("services?search={}", "a".repeat(500)),
    ];
    for question in hostile {
        assert_eq!(status(&format!("/ferrule/v1/{question}")), Some(400), "{question}");
    }
    assert!(program.terminate().expect("it ends").success());
    let _program = stand.start(&["--status-page=false"]);
    until(|| status("/ferrule/v1/history").filter(|status| *status == 200));
    for path in ["/ferrule", "/ferrule/", "/ferrule/app.js", "/ferrule/v1/events"] {
        assert_eq!(status(path), Some(404), "{path}");
    }
}
