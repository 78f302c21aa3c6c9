//! The node loses its network for a while, or its time: a default route that goes and comes, a process that stands still.

use std::time::Duration;

use ferrule_testkit::scripted_server::ScriptedServer;
use rustix::process::Signal;

use crate::api::{ADDED, FIRST, Site, usual_answer};
use crate::root::wait;
use crate::stand::{ASKING_POD, BINARY, CLIENT, PATIENCE, PODS, Stand, ip, is_answered_by, until};
use crate::table::{Seen, Table};

const TOLD: &str = "Failed to watch, retrying";
const SUSPENDED: Duration = Duration::from_secs(6);

pub fn attack(table: &mut Table) {
    table.group("bad network");
    table.attack(
        "the default route goes, and comes back",
        "pods are served all the while; the API server is watched again, one line each",
        lost_route,
    );
    if table.is_full() {
        table.group("another root");
        table.attack(
            "suspends it for six seconds, with a watch and with rules that go meanwhile",
            "catches up without a new list; health answers 200",
            suspended,
        );
    }
}

/// A node whose API server is beyond its uplink.
fn remote_site() -> Site {
    let stand = Stand::new();
    let beyond = stand.net.namespace_of(ip(CLIENT)).expect("somebody with this address");
    let server = beyond.run(|| ScriptedServer::start_on(ip(CLIENT), usual_answer));
    let server = server.expect("the namespace").expect("a scripted server");
    let master = format!("--master=http://{}", server.address());
    Site::start(stand, server, &[BINARY, &master])
}

fn lost_route() -> Seen {
    let site = remote_site();
    let said = site.program.said();
    let node = site.stand.net.node();
    let routes = node.feed("ip", &["route", "show", "default"], "").map_err(|error| error.with_sources())?;
    let routes = String::from_utf8_lossy(&routes.stdout).trim().to_owned();
    node.feed("ip", &["route", "del", "default"], "").map_err(|error| error.with_sources())?;
    site.add_service();
    site.server.disconnect();
    site.program.wait_for(TOLD, said, PATIENCE).ok_or("no trouble was told")?;
    let seen = site.stand.ask(ASKING_POD, FIRST, 80);
    if !is_answered_by(&seen, &PODS[..1]) {
        return Err(format!("without a route: {seen}"));
    }
    if node.page_status(10256, "/healthz") != Some(200) {
        return Err("health says that the node is ill".into());
    }
    let route: Vec<&str> = ["route", "add"].into_iter().chain(routes.split_whitespace()).collect();
    node.feed("ip", &route, "").map_err(|error| error.with_sources())?;
    until(|| site.serves(ADDED).then_some(()));
    site.program.wait_for("Watching the API server again", said, PATIENCE).ok_or("its end was not told")?;
    let log = site.program.log();
    let told = log.iter().skip(said).filter(|line| line.contains(TOLD)).count();
    if told > 1 { Err(format!("{told} lines")) } else { Ok("served on, told once, watched again".into()) }
}

/// What a machine that was suspended looks like, but for the clocks: those of a real one do not count the time.
fn suspended() -> Seen {
    let site = remote_site();
    let lists = || {
        let requests = site.server.requests();
        requests.iter().filter(|request| request.is_about("services") && !request.is_watch()).count()
    };
    let before = lists();
    let signal = |signal| site.program.signal(signal).map_err(|error| error.to_string());
    signal(Signal::STOP)?;
    // Something for it to find.
    site.stand.nft(&["flush", "table", "ip", "kube-proxy"]);
    wait(SUSPENDED);
    signal(Signal::CONT)?;
    if site.stand.net.node().page_status(10256, "/healthz") != Some(200) {
        return Err("health says that the node is ill".into());
    }
    until(|| site.serves_last().then_some(()));
    if lists() != before {
        return Err("it listed everything anew".into());
    }
    Ok("caught up, no new list".into())
}
