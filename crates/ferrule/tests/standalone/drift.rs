//! What other programs do to our rules is undone, and told.

use ferrule_testkit::netns::{Seen, or_skip};

use crate::stand::{ASKING_POD, PATIENCE, PODS, Stand, VIP, is_answered_by, service, slice};

/// Each thing that is done to the table, and what the log says of it.
const DAMAGE: [(&[&str], &str); 7] = [
    (&["flush", "ruleset"], "table removed"),
    (&["delete", "table", "ip", "kube-proxy"], "table removed"),
    (&["flush", "map", "ip", "kube-proxy", "services"], "elements of services removed"),
    (&["flush", "map", "ip", "kube-proxy", "ways"], "elements of ways removed"),
    (&["flush", "chain", "ip", "kube-proxy", "services"], "rule of services removed"),
    (&["add", "chain", "ip", "kube-proxy", "stray"], "chain stray added or changed"),
    (&["add", "table", "ip", "kube-proxy", "{ flags dormant; }"], "table added or changed"),
];

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
