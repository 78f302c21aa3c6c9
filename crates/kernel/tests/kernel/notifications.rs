//! Notifications that are lost, and those that are done without during a large commit of our own.

use std::fmt::Write as _;

use ferrule_kernel::iptables::RestoreText;
use ferrule_kernel::iptables::direct::NetlinkTables;
use ferrule_kernel::nft::{Family, NftChange, NftNotification, NftNotifications, NftWatch, Subscription};
use ferrule_kernel::port::XTables as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::support::namespace::in_namespace;
use crate::support::nft_program;

fn tables() -> NetlinkTables {
    NetlinkTables::open(Family::Ip).unwrap()
}

fn read(watch: &mut NftWatch) -> Vec<NftNotification> {
    match watch.read().unwrap() {
        NftNotifications::Received(received) => received,
        NftNotifications::Lost(commits) => panic!("lost: {commits:?}"),
    }
}

/// Commits a chain of this name; the generation that became of it.
fn commit(tables: &mut NetlinkTables, chain: &str) -> u32 {
    let text = RestoreText::literal(format!("*nat\n:{chain} - [0:0]\nCOMMIT\n").leak());
    tables.restore(&text).unwrap();
    tables.generation().unwrap()
}

fn is_about(notification: &NftNotification, chain: &str) -> bool {
    matches!(&notification.change, NftChange::Chain(name) if name.as_str() == chain)
}

/// Names the program that committed, if the notification is the end of a commit.
fn committer(notification: &NftNotification) -> Option<&str> {
    match &notification.change {
        NftChange::Generation { process_name, .. } => process_name.as_deref(),
        _ => None,
    }
}

#[test]
fn during_a_pause_nothing_is_announced_and_nothing_is_missed() {
    in_namespace(|| {
        let (subscription, mut tables) = (Subscription::default(), tables());
        assert!(subscription.pause().is_none(), "nobody has subscribed");
        let mut watch = NftWatch::open_pausable(&subscription).unwrap();
        commit(&mut tables, "BEFORE");
        let generation = tables.generation().unwrap();
        let pause = subscription.pause().unwrap();
        assert_eq!(tables.generation().unwrap(), generation, "a pause changes nothing");
        let committed = commit(&mut tables, "MEANWHILE");
        pause.end(Some(committed));
        commit(&mut tables, "AFTER");
        let received = read(&mut watch);
        for (chain, is_expected) in [("BEFORE", true), ("MEANWHILE", false), ("AFTER", true)] {
            assert_eq!(received.iter().any(|heard| is_about(heard, chain)), is_expected, "{chain}");
        }
        subscription.pause().unwrap().end(None);
        assert_eq!(read(&mut watch), [], "nothing was committed");
    });
}

#[test]
fn a_foreign_commit_during_a_pause_is_noticed() {
    in_namespace(|| {
        let (subscription, mut tables) = (Subscription::default(), tables());
        let mut watch = NftWatch::open_pausable(&subscription).unwrap();
        let foreign = |name: &str| nft_program::run(&["add", "table", "ip", name], "");
        let lost = |watch: &mut NftWatch| {
            let readable = &mut [PollFd::new(&*watch, PollFlags::IN)];
            assert_eq!(poll(readable, Some(&Timespec { tv_sec: 60, tv_nsec: 0 })), Ok(1), "it is woken up");
            matches!(watch.read().unwrap(), NftNotifications::Lost(_))
        };
        for is_before in [true, false] {
            let pause = subscription.pause().unwrap();
            if is_before {
                foreign("before");
            }
            let committed = commit(&mut tables, "OURS");
            if !is_before {
                foreign("after");
            }
            pause.end(Some(committed));
            assert!(lost(&mut watch), "before ours: {is_before}");
        }
        let pause = subscription.pause().unwrap();
        foreign("alone");
        pause.end(None);
        assert!(lost(&mut watch));
        commit(&mut tables, "LATER");
        assert!(read(&mut watch).iter().any(|heard| is_about(heard, "LATER")), "it goes on");
    });
}

/// So many rules that their notifications do not fit into a receive buffer, if nobody reads.
fn many_rules() -> String {
    let mut text = String::from("table ip many { chain c {\n");
    for number in 0..60_000 {
        let _ = writeln!(text, "ip saddr 10.0.0.{} tcp dport {number} counter accept", number % 250);
    }
    text + "}\n}\n"
}

#[test]
fn where_notifications_are_lost_the_programs_that_committed_are_known() {
    in_namespace(|| {
        let (mut watch, mut tables) = (NftWatch::open().unwrap(), tables());
        commit(&mut tables, "EARLIER");
        read(&mut watch);
        nft_program::load(&many_rules());
        let NftNotifications::Lost(commits) = watch.read().unwrap() else { panic!("nothing was lost") };
        assert_eq!(commits.iter().map(committer).collect::<Vec<_>>(), [Some("nft")]);
        commit(&mut tables, "LATER");
        let received = read(&mut watch);
        assert!(received.iter().any(|heard| is_about(heard, "LATER")), "it goes on: {received:?}");
    });
}
