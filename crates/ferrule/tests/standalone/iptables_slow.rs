//! iptables mode with programs that take their time, as they do in a large cluster: no change waits for a check of the rules, and
//! what is being written is not taken for what somebody removed.

use std::time::{Duration, Instant};

use ferrule_testkit::Program;

use crate::fakes::{Fakes, is_running};
use crate::iptables::{MODE, ready, run};
use crate::stand::{ASKING_POD, PATIENCE, PODS, Stand, VIP, is_answered_by, until};

const REPAIRED: &str = "Another program changed our rules";
const NEW_VIP: &str = "10.96.0.77";

/// Longer than tables that are emptied one after the other are waited for, and than several periods.
const HELD: Duration = Duration::from_secs(7);

/// Waits for as long as a file is there, after leaving its own number in another.
fn held_by(file: &str) -> String {
    format!(
        "if [ -e $HERE/{file} ]; then echo $$ >>$HERE/{file}-by; while [ -e $HERE/{file} ]; do sleep 0.02; done; fi"
    )
}

/// Notes every question about a single chain.
const NOTE_QUESTIONS: &str = "case \"$*\" in *\"-S KUBE-\"*) echo \"$*\" >>$HERE/asked;; esac";

fn pass(time: Duration) {
    let since = Instant::now();
    while since.elapsed() < time {
        std::thread::park_timeout(time.saturating_sub(since.elapsed()));
    }
}

fn synced(program: &Program) {
    let synced = program.wait_for("family=\"IPv6\" written=", 0, PATIENCE);
    assert!(synced.is_some(), "no first sync:\n{}", program.log().join("\n"));
}

fn assert_no_alarm(program: &Program) {
    let log = program.log();
    assert!(!log.iter().any(|line| line.contains(REPAIRED)), "{}", log.join("\n"));
}

/// Another Service, for one more of the pods.
fn add_service(stand: &Stand) {
    let text = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: new, namespace: default}}\nspec:\n  clusterIP: {NEW_VIP}\n  \
         ports:\n  - {{name: http, port: 80, targetPort: 8080}}\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
         metadata:\n  name: new-1\n  namespace: default\n  labels: {{kubernetes.io/service-name: new}}\n\
         addressType: IPv4\nports:\n- {{name: http, port: 8080}}\nendpoints:\n- {{addresses: [{}]}}\n",
        PODS[0]
    );
    stand.write("new.yaml", &text);
}

#[test]
fn rules_that_are_still_being_written_are_not_taken_for_rules_that_somebody_removed() {
    let Some(stand) = ready() else { return };
    let fakes = Fakes::new();
    fakes.before("-restore", &held_by("writing"));
    fakes.before("", NOTE_QUESTIONS);
    fakes.set("writing");
    // Without NodePorts on loopback nothing is written before the first sync.
    let flags = [&MODE[1..], &["--iptables-localhost-nodeports=false"]].concat();
    let program = fakes.start(&stand, &flags);
    fakes.numbers("writing-by", 1);
    let asked = fakes.lines("asked");
    pass(HELD);
    assert_eq!(fakes.lines("asked"), asked, "nobody looks for chains that we are about to write");
    fakes.unset("writing");
    synced(&program);
    // Afterwards the chains are looked for again, and found.
    until(|| (fakes.lines("asked") > asked + 20).then_some(()));
    assert_no_alarm(&program);
}

#[test]
fn nor_is_what_was_seen_before_or_while_a_change_was_written() {
    let Some(stand) = ready() else { return };
    let fakes = Fakes::new();
    // The answer is older than the change during which it comes.
    let late = format!("case \"$*\" in *\"-S KUBE-PROXY-CANARY\"*) {}; esac", held_by("asking"));
    let blind = "case \"$*\" in *\"-S KUBE-PROXY-CANARY\"*) if [ -e $HERE/blind ]; then echo 'No chain/target/match by that name.' >&2; exit 1; fi;; esac";
    fakes.before("", &format!("{late}\n{blind}"));
    let program = fakes.start(&stand, &MODE[1..]);
    synced(&program);
    fakes.set("blind");
    fakes.set("asking");
    fakes.numbers("asking-by", 1);
    add_service(&stand);
    stand.ask_until(ASKING_POD, NEW_VIP, 80, |seen| is_answered_by(seen, &PODS));
    let said = program.said();
    fakes.unset("asking");
    fakes.unset("blind");
    assert!(program.wait_for("Rules verified", said, PATIENCE).is_some(), "{}", program.log().join("\n"));
    assert_no_alarm(&program);
}

#[test]
fn chains_that_cannot_be_seen_for_a_while_are_read_before_anybody_is_blamed() {
    let Some(stand) = ready() else { return };
    let fakes = Fakes::new();
    let blind = "case \"$*\" in *\"-S KUBE-\"*) if [ -e $HERE/blind ]; then echo 'No chain/target/match by that name.' >&2; exit 1; fi;; esac";
    fakes.before("", blind);
    let program = fakes.start(&stand, &MODE[1..]);
    synced(&program);
    let said = program.said();
    fakes.set("blind");
    assert!(program.wait_for("Rules verified", said, PATIENCE).is_some(), "{}", program.log().join("\n"));
    assert_no_alarm(&program);
}

#[test]
fn a_program_that_fails_or_is_killed_says_nothing_about_the_tables() {
    let Some(stand) = ready() else { return };
    let fakes = Fakes::new();
    fakes.before(
        "",
        "case \"$*\" in *\"-S KUBE-PROXY-CANARY\"*) if [ -e $HERE/broken ]; then echo x >>$HERE/failed; kill -9 $$; fi;; esac",
    );
    let program = fakes.start(&stand, &MODE[1..]);
    synced(&program);
    fakes.set("broken");
    until(|| (fakes.lines("failed") > 6).then_some(()));
    assert_no_alarm(&program);
    let told = program.log().iter().filter(|line| line.contains("Cannot verify the rules, they are")).count();
    assert_eq!(told, 2, "once for each family:\n{}", program.log().join("\n"));
    // A change is written all the same.
    add_service(&stand);
    stand.ask_until(ASKING_POD, NEW_VIP, 80, |seen| is_answered_by(seen, &PODS));
}

#[test]
fn a_change_is_written_while_a_slow_check_of_all_rules_is_under_way() {
    let Some(stand) = ready() else { return };
    let fakes = Fakes::new();
    // The one that is used here; others look for what other variants left.
    fakes.before_program("iptables-save", &held_by("reading"));
    let program = fakes.start(&stand, &MODE[1..]);
    synced(&program);
    fakes.set("reading");
    let readers = fakes.numbers("reading-by", 1);
    add_service(&stand);
    stand.ask_until(ASKING_POD, NEW_VIP, 80, |seen| is_answered_by(seen, &PODS));
    // What it would have read is out of date, so it is ended.
    until(|| (!is_running(readers[0])).then_some(()));
    assert!(fakes.file("reading").exists(), "all the while it took its time");
    let said = program.said();
    fakes.unset("reading");
    assert!(program.wait_for("Rules verified", said, PATIENCE).is_some(), "{}", program.log().join("\n"));
    assert_no_alarm(&program);
}

#[test]
fn a_start_reads_all_rules_once_and_removing_leftovers_does_not_read_them_again() {
    let Some(stand) = ready() else { return };
    let fakes = Fakes::new();
    fakes.before("-save", "echo \"$0\" >>$HERE/read");
    run(&stand, "iptables-nft", &["-t", "mangle", "-N", "KUBE-IPTABLES-HINT"]);
    let program = fakes.start(&stand, &["--iptables-sync-period=10m", "--iptables-min-sync-period=1ms"]);
    synced(&program);
    // Removing leftovers reads the other variant, IPv6 last.
    let read = || std::fs::read_to_string(fakes.file("read")).unwrap_or_default();
    until(|| read().contains("/ip6tables-legacy-save").then_some(()));
    until(|| {
        let page = stand.net.node().page(10249, "/metrics").unwrap_or_default();
        page.contains("kubeproxy_sync_proxy_rules_duration_seconds_count").then_some(())
    });
    let read = read();
    let nft = read.lines().filter(|line| line.ends_with("/iptables-nft-save")).count();
    assert_eq!(nft, 1, "{read}");
    assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS));
}
