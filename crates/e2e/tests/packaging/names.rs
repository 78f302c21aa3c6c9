//! The API server by a name instead of an address, where there is nothing but the static program: kubeadm's kubeconfig names the
//! control plane so. A static C library would load plugins of the host's to resolve names, if it were left to it.

use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::thread;
use std::time::Duration;

use ferrule_testkit::Program;
use ferrule_testkit::api_server::{self, ADDRESS, ApiServer, User};
use ferrule_testkit::netns::NetWorld;
use serde_json::json;

use crate::empty_root::{SYNCED, TIMEOUT, root_with, start_in, world};
use crate::tools::static_program;

const NAME: &str = "control-plane.example";
/// Where it stops at a name that is not in the file, or loads a plugin that is not there.
const HOSTILE_ORDER: &str = "hosts: files [NOTFOUND=return] resolve [!UNAVAIL=return] dns\n";

/// Starts the program with a kubeconfig that names the server.
fn start(root: &Path, net: &NetWorld, server: &ApiServer) -> Program {
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{ "name": "test", "cluster": {
            "server": format!("https://{NAME}:{}", server.address().port()),
            "tls-server-name": ADDRESS.to_string(),
            "certificate-authority": "/ca.crt",
        } }],
        "users": [{ "name": "test", "user": { "token": User::KubeProxy.token() } }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
    });
    fs::copy(server.ca_file(), root.join("ca.crt")).expect("the certificate is copied");
    fs::write(root.join("kubeconfig"), kubeconfig.to_string()).expect("a kubeconfig");
    start_in(root, net, &["--kubeconfig=/kubeconfig"])
}

fn assert_synced(program: &Program) {
    assert!(program.wait_for(SYNCED, 0, TIMEOUT).is_some(), "no first sync:\n{}", program.log().join("\n"));
}

/// Joins a node to the API server, and writes files under `/etc` of a root for it.
fn site(
    server: &ApiServer,
    program: &Path,
    address: [u8; 4],
    etc: &[(&str, &str)],
) -> (NetWorld, tempfile::TempDir) {
    let (net, root) = (world(), root_with(program));
    server.join(net.node(), address.into()).map_err(|error| error.with_sources()).expect("a cable");
    fs::create_dir(root.path().join("etc")).expect("a folder");
    for (name, text) in etc {
        fs::write(root.path().join("etc").join(name), text).expect("a file");
    }
    (net, root)
}

#[test]
fn a_name_in_the_hosts_file_is_found() {
    let Some(program) = static_program().filter(|_| api_server::or_skip()) else { return };
    let server = ApiServer::shared();
    let hosts = format!("{ADDRESS} {NAME}\n");
    let (net, root) = site(server, &program, [172, 31, 200, 1], &[("hosts", &hosts)]);
    assert_synced(&start(root.path(), &net, server));
}

#[test]
fn a_name_is_found_by_dns_whatever_the_host_has_configured() {
    let Some(program) = static_program().filter(|_| api_server::or_skip()) else { return };
    let server = ApiServer::shared();
    answer_questions(server);
    let resolver = format!("nameserver {ADDRESS}\n");
    let etc =
        [("resolv.conf", &*resolver), ("hosts", "127.0.0.1 localhost\n"), ("nsswitch.conf", HOSTILE_ORDER)];
    let (net, root) = site(server, &program, [172, 31, 200, 2], &etc);
    assert_synced(&start(root.path(), &net, server));
}

/// A DNS server beside the API server that knows one name. Ends with the process.
fn answer_questions(server: &ApiServer) {
    let socket =
        server.namespace().run(|| UdpSocket::bind((ADDRESS, 53))).expect("the namespace").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_mins(10))).expect("a timeout");
    thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((length, client)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&answer(&buffer[..length]), client);
        }
    });
}

/// Repeats the question, with an address if one of version 4 is asked for.
fn answer(question: &[u8]) -> Vec<u8> {
    const A: [u8; 4] = [0, 1, 0, 1];
    let encoded: Vec<u8> = NAME
        .split('.')
        .flat_map(|label| [&[u8::try_from(label.len()).expect("short")], label.as_bytes()].concat())
        .collect();
    let end = 12 + encoded.len() + 1;
    let is_known = question.get(12..end - 1) == Some(&encoded[..]);
    let is_for_address = question.get(end..end + 4) == Some(&A[..]);
    let count = u8::from(is_known && is_for_address);
    let flags = if is_known { [0x81, 0x80] } else { [0x81, 0x83] };
    let mut answer = [&question[..2], &flags, &[0, 1, 0, count, 0, 0, 0, 0]].concat();
    answer.extend(question.get(12..end + 4).unwrap_or_default());
    if count > 0 {
        // The name of the question, an address, a minute.
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        answer.extend(ADDRESS.octets());
    }
    answer
}
