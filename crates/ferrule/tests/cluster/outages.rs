//! An API server that goes away, comes back, and forgets: rules stay, and only what changed is written.

use ferrule_kernel::nft::{NftChange, NftNotification, NftNotifications, NftWatch};
use ferrule_testkit::api_server::{ApiServer, Options, User, or_skip};
use serde_json::json;

use crate::site::{ASKING_POD, PATIENCE, PODS, Site};

/// What was committed since last time: elements by the map they are in, and how many commits.
fn commits(watch: &mut NftWatch) -> (Vec<String>, usize) {
    let news = watch.read().expect("the kernel's news");
    assert!(!matches!(news, NftNotifications::Lost(_)), "too many news");
    let NftNotifications::Received(events) = news else { return Default::default() };
    let commits = events.iter().filter(|event| matches!(event.change, NftChange::Generation { .. })).count();
    let named = |event: &NftNotification| match &event.change {
        NftChange::Elements(map) => Some(format!("elements of {map}")),
        NftChange::Generation { .. } => None,
        what => Some(format!("{what:?}")),
    };
    (events.iter().filter_map(named).collect(), commits)
}

fn watch(site: &Site) -> NftWatch {
    site.net.node().run(NftWatch::open).expect("the node").expect("a socket")
}

#[test]
fn an_api_server_that_goes_away_and_forgets_costs_nothing() {
    if !or_skip() {
        return;
    }
    let server =
        ApiServer::start(Options::default()).map_err(|error| error.with_sources()).expect("a server");
    let site = Site::new(&server, "outage");
    let kept = site.service("kept", json!({}));
    site.slice("kept", &PODS[..1]);
    let changed = site.service("changed", json!({}));
    site.slice("changed", &PODS[..1]);
    let program = site.serve();
    site.answered(ASKING_POD, &kept.cluster_ip, 80, &PODS[..1]);
    site.answered(ASKING_POD, &changed.cluster_ip, 80, &PODS[..1]);

    let mut news = watch(&site);
    server.stop_api_server();
    let told = program.wait_for("https://172.31.0.1:6443", 0, PATIENCE);
    assert!(told.is_some(), "{}", program.log().join("\n"));
    site.answered(ASKING_POD, &kept.cluster_ip, 80, &PODS[..1]);
    server.start_api_server().map_err(|error| error.with_sources()).expect("it is back");
    site.change_slice("changed", &PODS[1..2]);
    site.answered(ASKING_POD, &changed.cluster_ip, 80, &PODS[1..2]);
    let (written, count) = commits(&mut news);
    assert!(written.iter().all(|what| what.starts_with("elements of ")), "{written:?}");
    assert!((1..=2).contains(&count), "{count} commits: {written:?}");

    // Nobody can go on from what was known before: everything is listed anew, and only what differs is written.
    server.compact().map_err(|error| error.with_sources()).expect("etcd forgets");
    server.stop_api_server();
    server.start_api_server().map_err(|error| error.with_sources()).expect("it is back");
    site.change_slice("changed", &PODS[2..]);
    site.answered(ASKING_POD, &changed.cluster_ip, 80, &PODS[2..]);
    site.answered(ASKING_POD, &kept.cluster_ip, 80, &PODS[..1]);
    let (written, count) = commits(&mut news);
    assert!(written.iter().all(|what| what.starts_with("elements of ")), "{written:?}");
    assert!((1..=2).contains(&count), "{count} commits: {written:?}");

    program.terminate().expect("it ends");
    let mut news = watch(&site);
    let program = site.serve();
    assert_eq!(commits(&mut news), (Vec::new(), 0), "a second start has nothing to write");
    let metrics = site
        .page_until(10249, "/metrics", |page| page.body.contains("ferrule_initial_sync_objects_written{"));
    assert!(
        metrics.body.contains("ferrule_initial_sync_objects_written{ip_family=\"IPv4\"} 0"),
        "{}",
        metrics.body
    );
    drop(program);
}

#[test]
fn a_rotated_token_counts_at_once() {
    if !or_skip() {
        return;
    }
    let server =
        ApiServer::start(Options::default()).map_err(|error| error.with_sources()).expect("a server");
    let site = Site::new(&server, "rotation");
    let token = site.file("token", "outdated\n");
    let path = site.kubeconfig(&json!({ "tokenFile": token }));
    let text = std::fs::read_to_string(&path).expect("the kubeconfig");
    let arguments = site.arguments();
    // The usual arguments wrote the usual kubeconfig over ours.
    std::fs::write(&path, text).expect("the kubeconfig");
    let program = ferrule_testkit::Program::start(site.net.node(), crate::site::BINARY.as_ref(), &arguments);
    let program = program.expect("it starts");
    let told = program.wait_for("still valid", 0, PATIENCE);
    assert!(told.is_some_and(|line| line.contains("401")), "{}", program.log().join("\n"));
    std::fs::write(&token, User::KubeProxy.token()).expect("the token is renewed");
    site.until_ready(&program);
}
