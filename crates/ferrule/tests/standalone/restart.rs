//! A restart with nothing changed writes nothing, whatever others did to their own tables meanwhile.

use ferrule_kernel::nft::{NftChange, NftNotification, NftNotifications, NftWatch};
use ferrule_testkit::netns::or_skip;

use crate::stand::{ASKING_POD, PATIENCE, PODS, Stand, Talker, VIP, service, slice};

/// Everything that was committed since last time, but for what belongs to a table of others.
fn commits(watch: &mut NftWatch) -> Vec<NftNotification> {
    let news = watch.read().expect("the kernel's news");
    assert!(!matches!(news, NftNotifications::Lost(_)), "too many news");
    let NftNotifications::Received(events) = news else { return Vec::new() };
    let theirs =
        |event: &NftNotification| event.table.as_ref().is_some_and(|table| table.as_str() == "theirs");
    events.into_iter().filter(|event| !theirs(event)).collect()
}

/// Restarts the program after something; says how many flows it deleted at its start, and what was committed.
fn restarted(stand: &Stand, between: impl FnOnce(&Stand)) -> (String, Vec<NftNotification>) {
    let program = stand.serve();
    program.terminate().expect("it ends");
    between(stand);
    let mut watch = stand.net.node().run(NftWatch::open).expect("the node").expect("a socket");
    let program = stand.serve();
    let flows = program.wait_for("Checked for stale flows", 0, PATIENCE).expect("it looks for stale flows");
    let log = program.log().join("\n");
    assert!(!log.contains("Rules written"), "{log}");
    (flows, commits(&mut watch))
}

#[test]
fn a_restart_writes_nothing_and_cuts_no_flow() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS)));
    let program = stand.serve();
    let talker = Talker::new(&stand, ASKING_POD, VIP, 53);
    let endpoint = talker.ask_until(&PODS);
    program.terminate().expect("it ends");

    let (flows, commits) = restarted(&stand, |_| {});
    assert_eq!(commits, []);
    assert!(flows.contains("deleted=0"), "{flows}");

    let (flows, commits) = restarted(&stand, |stand| {
        stand.nft(&["add", "table", "ip", "theirs"]);
    });
    assert_eq!(commits, [], "another program's commit is no reason to write");
    assert!(flows.contains("deleted=0"), "{flows}");
    assert_eq!(talker.ask().expect("an answer"), endpoint);
}

#[test]
fn what_changed_meanwhile_is_written() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS[..1])));
    stand.serve().terminate().expect("it ends");
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS[1..])));
    let mut watch = stand.net.node().run(NftWatch::open).expect("the node").expect("a socket");
    let _program = stand.serve();
    let generations = commits(&mut watch)
        .iter()
        .filter(|event| matches!(event.change, NftChange::Generation { .. }))
        .count();
    assert_eq!(
        generations, 2,
        "chains that are missing, then all the rest at once: packets see the old rules or the new ones"
    );
}

#[test]
fn cleanup_removes_our_tables_and_nobody_elses() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS)));
    stand.serve().terminate().expect("it ends");
    stand.nft(&["add", "table", "ip", "theirs"]);
    for _ in 0..2 {
        let ended = stand.start(&["--cleanup"]).wait().expect("it ends");
        assert!(ended.success());
        assert_eq!(stand.nft(&["list", "tables"]).trim(), "table ip theirs");
    }
}
