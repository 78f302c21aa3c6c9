//! What other programs do to our rules is undone, and told.

use std::io::Write as _;
use std::process::{Command, Stdio};

use ferrule_testkit::netns::{Seen, or_skip};

use crate::stand::{ASKING_POD, PATIENCE, PODS, Stand, VIP, is_answered_by, service, slice};

/// Each thing that is done to the table, and what the log says of it.
const DAMAGE: [(&[&str], &str); 12] = [
    (&["flush", "ruleset"], "table removed"),
    (&["delete", "table", "ip", "kube-proxy"], "table removed"),
    (&["flush", "map", "ip", "kube-proxy", "services"], "elements of services removed"),
    (&["flush", "map", "ip", "kube-proxy", "dispatch"], "elements of dispatch removed"),
    (&["flush", "chain", "ip", "kube-proxy", "services"], "rule of services removed"),
    (&["add", "chain", "ip", "kube-proxy", "stray"], "chain stray added or changed"),
    (&["add", "table", "ip", "kube-proxy", "{ flags dormant; }"], "table added or changed"),
    (DROP_POLICY, "chain nat-prerouting added or changed"),
    (&["add chain ip kube-proxy filter-input { policy drop; }"], "chain filter-input added or changed"),
    (
        &["add chain ip kube-proxy pool-77 { type filter hook input priority 0; policy drop; }"],
        "chain pool-77 added",
    ),
    (&["add set ip kube-proxy mine { type ipv4_addr; }"], "set mine added or changed"),
    (&["add counter ip kube-proxy mine"], "something added or changed"),
];

/// The kernel keeps a policy when a chain is written again.
const DROP_POLICY: &[&str] = &["add chain ip kube-proxy nat-prerouting { policy drop; }"];

#[test]
fn damage_is_repaired_and_told() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS)));
    let program = stand.serve();
    let before = stand.nft(&["list", "table", "ip", "kube-proxy"]);
    for (damage, told) in DAMAGE {
        let said = program.said();
        stand.nft(damage);
        let line = program.wait_for("Another program changed our rules, repaired", said, PATIENCE);
        let line =
            line.unwrap_or_else(|| panic!("{damage:?} was not noticed:\n{}", program.log().join("\n")));
        assert!(line.contains(told) && line.contains("nft (process "), "{line}");
        assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS), "after {damage:?}");
        let after = stand.nft(&["list", "table", "ip", "kube-proxy"]);
        assert_eq!(without_stamp(&after), without_stamp(&before), "after {damage:?}");
    }
}

/// Everything but the stamp, which names the commit. Elements of a set come in no order.
fn without_stamp(text: &str) -> Vec<&str> {
    let mut in_stamp = false;
    let mut kept: Vec<&str> = text
        .lines()
        .filter(|line| {
            in_stamp = line.contains("set ferrule-stamp") || in_stamp && !line.trim_start().starts_with('}');
            !in_stamp
        })
        .flat_map(|line| line.split(','))
        .map(|part| part.trim().trim_start_matches("elements = { ").trim_end_matches(" }"))
        .collect();
    kept.sort_unstable();
    kept
}

/// A stamp vouches for the table only if the table was read since another program wrote to it.
#[test]
fn what_was_done_while_nobody_watched_is_undone_by_the_next_start() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS)));
    stand.serve().terminate().expect("it ends");
    let before = stand.nft(&["list", "table", "ip", "kube-proxy"]);
    for damage in [DROP_POLICY, &["add set ip kube-proxy mine { type ipv4_addr; }"]] {
        stand.nft(damage);
        let program = stand.serve();
        assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS), "after {damage:?}");
        program.terminate().expect("it ends");
        let after = stand.nft(&["list", "table", "ip", "kube-proxy"]);
        assert_eq!(without_stamp(&after), without_stamp(&before), "after {damage:?}");
    }
}

/// The kernel lets nobody but its owner change such a table, and does not say who that is.
#[test]
fn a_table_that_another_program_made_its_own_is_told_with_advice_and_taken_back_after_it() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS)));
    let program = stand.serve();
    let said = program.said();
    let mut owner = stand
        .net
        .node()
        .run(|| Command::new("nft").arg("-i").stdin(Stdio::piped()).stdout(Stdio::null()).spawn());
    let owner = owner.as_mut().expect("the node").as_mut().expect("nft");
    let mut input = owner.stdin.take().expect("its input");
    let take = "delete table ip kube-proxy; add table ip kube-proxy { flags owner; }";
    writeln!(input, "{take}").and_then(|()| input.flush()).expect("its input");
    let line = program.wait_for("is owned by another program", said, PATIENCE).expect("a line about it");
    assert!(line.contains(&owner.id().to_string()) && line.contains("stop that program"), "{line}");
    drop(input);
    owner.wait().expect("its end");
    stand.ask_until(ASKING_POD, VIP, 80, |seen| is_answered_by(seen, &PODS));
}

#[test]
fn tables_of_others_are_nothing_to_us() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS)));
    let program = stand.serve();
    let said = program.said();
    stand.nft(&["add", "table", "ip", "theirs"]);
    stand.nft(&["add", "chain", "ip", "theirs", "c"]);
    // The repair of our own table comes after whatever was done about theirs.
    stand.nft(&["delete", "table", "ip6", "kube-proxy"]);
    let line = program.wait_for("repaired", said, PATIENCE).expect("a repair");
    assert!(line.contains("IPv6"), "{line}");
    assert!(stand.nft(&["list", "tables"]).contains("table ip theirs"));
    assert!(matches!(stand.ask(ASKING_POD, VIP, 80), Seen::Answered { .. }));
}
