//! The API server that other tests are given: it starts, forgets nothing over a restart, and leaves nothing behind.

use std::net::{Ipv4Addr, TcpStream};

use ferrule_testkit::api_server::{ApiServer, Options, or_skip};
use ferrule_testkit::netns::Namespace;
use serde_json::json;

const NAMESPACES: &str = "/api/v1/namespaces";

#[test]
fn it_keeps_objects_over_a_restart_and_leaves_nothing_behind() {
    if !or_skip() {
        return;
    }
    let server = ApiServer::start(Options::default()).unwrap();
    let node = Namespace::new("node").unwrap();
    server.join(&node, Ipv4Addr::new(172, 31, 0, 2)).unwrap();
    node.run(|| TcpStream::connect(server.address())).unwrap().unwrap();

    server.create(NAMESPACES, &json!({ "metadata": { "name": "kept" } })).unwrap();
    server.stop_api_server();
    server.get(NAMESPACES).unwrap_err();
    server.start_api_server().unwrap();
    server.compact().unwrap();
    assert_eq!(server.get("/api/v1/namespaces/kept").unwrap()["metadata"]["name"], "kept");
    server.delete("/api/v1/namespaces/never").unwrap_err();

    let folder = server.folder().to_path_buf();
    let etcd = folder.join("etcd");
    assert!(etcd.exists());
    drop(server);
    assert!(!folder.exists());
}
