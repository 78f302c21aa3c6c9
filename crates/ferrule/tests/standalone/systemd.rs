//! Sockets that systemd keeps between two processes: the test takes its place, with the real program and real packets.

use std::collections::BTreeMap;
use std::io::{IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};

use ferrule_kernel::sys::pass_descriptors;
use ferrule_testkit::Program;
use ferrule_testkit::netns::{Seen, or_skip};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::stand::{
    ASKING_POD, BINARY, CLIENT, NODE, PATIENCE, PODS, Stand, VIP, ip, is_answered_by, service, slice,
};

/// What systemd does for a unit with `Type=notify` and `FileDescriptorStoreMax=`.
struct Manager {
    _folder: tempfile::TempDir,
    path: PathBuf,
    store: Arc<Store>,
}

#[derive(Default)]
struct Store {
    kept: Mutex<Kept>,
    changed: Condvar,
}

#[derive(Default)]
struct Kept {
    sockets: BTreeMap<String, OwnedFd>,
    /// Times that a program was ready.
    ready: usize,
}

impl Manager {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        let store: Arc<Store> = Arc::default();
        let receiving = Arc::clone(&store);
        std::thread::spawn(move || {
            while let Some((text, socket)) = receive(&socket) {
                receiving.obey(&text, socket);
            }
        });
        Self { _folder: folder, path, store }
    }

    /// Starts the program with all that is kept, as its numbers from 3 on.
    fn start(&self, stand: &Stand, more: &[&str]) -> Program {
        let before = self.ready();
        let folder = stand.folder().to_string_lossy().into_owned();
        let mut command = Command::new("sh");
        // Only the process itself knows its number.
        command.args(["-c", "LISTEN_PID=$$ exec \"$@\"", "sh", BINARY, "--manifests", &folder]);
        command.args(["--hostname-override", "node-a", "-v=2", "--cluster-cidr", "10.244.0.0/16"]).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let kept = self.store.kept.lock().expect("the store");
        let names: Vec<&str> = kept.sockets.keys().map(String::as_str).collect();
        command.env("NOTIFY_SOCKET", &self.path);
        command.env("LISTEN_FDS", names.len().to_string()).env("LISTEN_FDNAMES", names.join(":"));
        let sockets: Vec<_> = kept.sockets.values().map(|socket| socket.as_fd()).collect();
        pass_descriptors(&mut command, &sockets).expect("copies of the sockets");
        drop(kept);
        let child = stand.net.node().run(move || command.spawn()).expect("the node").expect("a process");
        let program = Program::watching(child).expect("its log");
        let is_ready = self.wait_until(|kept| kept.ready > before);
        assert!(is_ready, "it is not ready:\n{}", program.log().join("\n"));
        program
    }

    fn ready(&self) -> usize {
        self.store.kept.lock().expect("the store").ready
    }

    fn names(&self) -> Vec<String> {
        self.store.kept.lock().expect("the store").sockets.keys().cloned().collect()
    }

    /// Where the sockets that are kept listen or receive.
    fn addresses(&self) -> Vec<SocketAddr> {
        let kept = self.store.kept.lock().expect("the store");
        let address = |socket: &OwnedFd| rustix::net::getsockname(socket).ok()?.try_into().ok();
        kept.sockets.values().filter_map(address).collect()
    }

    fn wait_until(&self, is_reached: impl Fn(&Kept) -> bool) -> bool {
        let kept = self.store.kept.lock().expect("the store");
        let waited = self.store.changed.wait_timeout_while(kept, PATIENCE, |kept| !is_reached(kept));
        is_reached(&waited.expect("the store").0)
    }
}

impl Store {
    fn obey(&self, text: &str, socket: Option<OwnedFd>) {
        let mut kept = self.kept.lock().expect("the store");
        let lines: Vec<&str> = text.lines().collect();
        let name = lines.iter().find_map(|line| line.strip_prefix("FDNAME="));
        match (name, socket) {
            (Some(name), Some(socket)) if lines.contains(&"FDSTORE=1") => {
                assert!(name.len() <= 255 && !name.contains(':'), "systemd would refuse {name}");
                kept.sockets.insert(name.to_owned(), socket);
            }
            (Some(name), None) if lines.contains(&"FDSTOREREMOVE=1") => drop(kept.sockets.remove(name)),
            _ => {}
        }
        kept.ready += usize::from(lines.contains(&"READY=1"));
        self.changed.notify_all();
    }
}

/// One message, with the socket that came with it.
fn receive(socket: &UnixDatagram) -> Option<(String, Option<OwnedFd>)> {
    let mut buffer = [0; 1024];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut buffer)];
    let received = recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
    let passed = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Some((String::from_utf8_lossy(&buffer[..received.bytes]).into_owned(), passed))
}

fn rules(stand: &Stand) -> Vec<String> {
    let saved = stand.net.node().feed("iptables-nft-save", &[], "").map_err(|error| error.with_sources());
    let saved = String::from_utf8(saved.expect("it succeeds").stdout).expect("text");
    saved.lines().filter(|line| line.starts_with("-A")).map(str::to_owned).collect()
}

/// Another Service, at the next address.
fn other_service() -> String {
    service("")
        .replace("name: web", "name: other")
        .replace(VIP, "10.96.0.11")
        .replace("3008", "3108")
        .replace("3005", "3105")
}

/// A client that has connected and waits for an answer.
fn waiting_client(stand: &Stand) -> TcpStream {
    let client = stand.net.namespace_of(ip(CLIENT)).expect("the client");
    let connect = || TcpStream::connect_timeout(&SocketAddr::new(ip(NODE), 30080), PATIENCE);
    let mut stream = client.run(connect).expect("the client").expect("the socket listens, whoever has it");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(b"who?").expect("it is sent");
    stream
}

/// Killed and started again: no client is refused meanwhile, and no rule changes.
#[test]
fn sockets_that_systemd_kept_serve_who_connected_while_there_was_no_process() {
    if !or_skip() {
        return;
    }
    let (stand, manager) = (Stand::new(), Manager::new());
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS)));
    stand.write("other.yaml", &other_service());
    let mode = ["--proxy-mode", "userspace"];
    let program = manager.start(&stand, &mode);
    assert!(is_answered_by(&stand.ask(CLIENT, NODE, 30080), &PODS));
    let (with_both, before) = (manager.names(), rules(&stand));
    program.kill().expect("it ends");

    let mut waiting = waiting_client(&stand);
    let program = manager.start(&stand, &mode);
    let mut answer = [0; 1];
    waiting.read_exact(&mut answer).expect("an answer to who waited");
    assert_eq!(rules(&stand), before, "the same sockets, so the same rules");
    assert_eq!(manager.names(), with_both);
    program.kill().expect("it ends");

    // What a Service that has gone meanwhile had is not kept for ever.
    stand.remove("other.yaml");
    let _program = manager.start(&stand, &mode);
    assert!(manager.wait_until(|kept| kept.sockets.len() < with_both.len()), "{:?}", manager.names());
    assert!(is_answered_by(&stand.ask(CLIENT, NODE, 30080), &PODS));
    assert_eq!(stand.ask(CLIENT, NODE, 31080), Seen::Refused);
}

/// Nothing listens any more that no one accepts from, neither here nor in systemd.
#[test]
fn a_start_in_another_mode_has_systemd_close_what_it_kept() {
    if !or_skip() {
        return;
    }
    let (stand, manager) = (Stand::new(), Manager::new());
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS)));
    let program = manager.start(&stand, &["--proxy-mode", "userspace"]);
    program.kill().expect("it ends");
    let (kept, addresses) = (manager.names().len(), manager.addresses());
    assert!(kept >= 4, "a socket and a node port for each of two Service ports: {:?}", manager.names());

    let program = manager.start(&stand, &["--proxy-mode", "nftables"]);
    let said = program.wait_for("sockets that systemd kept", 0, PATIENCE);
    let said = said.unwrap_or_else(|| panic!("{}", program.log().join("\n")));
    assert!(said.contains(&format!("objects={kept}")), "{said}");
    assert!(manager.wait_until(|kept| kept.sockets.is_empty()), "{:?}", manager.names());
    let sockets = stand.net.node().feed("ss", &["-Hlntu"], "").map_err(|error| error.with_sources());
    let sockets = String::from_utf8(sockets.expect("it succeeds").stdout).expect("text");
    for address in addresses {
        let port = format!(":{} ", address.port());
        assert!(!sockets.contains(&port), "{address} is still open:\n{sockets}");
    }
    assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS));
    assert!(is_answered_by(&stand.ask(CLIENT, NODE, 30080), &PODS));
}
