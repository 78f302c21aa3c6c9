//! What another program with root's rights does to our table, while Ferrule runs and while it does not: all of it is undone,
//! and nothing is called repaired that was not read back.

mod support;

use ferrule_backends::nftables::Reconciler;
use ferrule_backends::{SyncOutcome, SyncReport, Trigger};
use ferrule_model::IpFamily;
use support::counting::Counting;
use support::lab::Lab;
use support::{client, in_namespace, nft};

const SERVICES: &str = "service one clusterIP 10.96.0.1 port 80→8080
    endpoint one 10.244.1.1 node a
    service two LoadBalancer 203.0.113.7 clusterIP 10.96.0.2 port 80→8080 sourceRanges 192.0.2.0/24 sessionAffinity ClientIP 600
    endpoint two 10.244.1.2 node a
    endpoint two 10.244.1.3 node a";

/// What an nft script does to the table `ip kube-proxy`, written `T` here.
const MEDDLING: [(&str, &str); 22] = [
    ("a policy of drop on prerouting", "add chain T nat-prerouting { policy drop; }"),
    ("a policy of drop on output", "add chain T nat-output { policy drop; }"),
    ("a policy of drop on forward", "add chain T filter-forward { policy drop; }"),
    ("a policy of drop on input", "add chain T filter-input { policy drop; }"),
    ("a policy of drop on postrouting", "add chain T nat-postrouting { policy drop; }"),
    (
        "another priority",
        "delete chain T filter-input; add chain T filter-input { type filter hook input priority 50; }",
    ),
    (
        "another hook",
        "delete chain T filter-input; add chain T filter-input { type filter hook output priority 0; }",
    ),
    ("a chain that lost its hook", "delete chain T filter-input; add chain T filter-input"),
    (
        "a chain that got a comment",
        "delete chain T filter-input; add chain T filter-input { type filter hook input priority 0; comment \"mine\"; }",
    ),
    ("a hooked chain of its own", "add chain T mine { type filter hook input priority 0; policy drop; }"),
    (
        "a hooked chain named as one for a pool size",
        "add chain T cluster-99 { type filter hook input priority 0; policy drop; }",
    ),
    ("a filled chain named as one for a pool size", "add chain T pool-77; add rule T pool-77 drop"),
    ("a rule before ours", "insert rule T services drop"),
    ("a rule after ours", "add rule T masquerading drop"),
    ("a set", "add set T mine { type ipv4_addr; }"),
    ("a map with elements", "add map T mine { type ipv4_addr : verdict; elements = { 10.0.0.1 : drop }; }"),
    (
        "a set for source ranges that admits others",
        "add set T source-ranges-8 { type ipv4_addr . inet_proto . inet_service . ipv4_addr; elements = { 203.0.113.7 . tcp . 80 . 10.0.0.0 }; }",
    ),
    ("a named counter", "add counter T mine"),
    ("a named quota", "add quota T mine { over 1 bytes }"),
    ("a named limit", "add limit T mine { rate 1/hour }"),
    (
        "an element with a comment",
        "delete element T cluster-ips { 10.96.0.1 }; add element T cluster-ips { 10.96.0.1 comment \"mine\" }",
    ),
    ("a table that sleeps", "add table T { flags dormant; }"),
];

/// Not every kernel has these; the machine with the older kernel does, and says so.
const FLOWTABLE: (&str, &str) =
    ("a flowtable", "add flowtable T mine { hook ingress priority 0; devices = { lo }; }");

fn meddling() -> Vec<(&'static str, &'static str)> {
    let has_flowtables = std::env::var_os("FERRULE_TEST_FLOWTABLES").is_some();
    MEDDLING.into_iter().chain(has_flowtables.then_some(FLOWTABLE)).collect()
}

/// Everything but elements, which [`Lab::contents`] compares: flags, policies, sizes, comments.
fn frame() -> String {
    nft(&["--terse", "list", "table", "ip", "kube-proxy"])
}

fn meddle(script: &str) {
    nft(&[&script.replace(" T ", " ip kube-proxy ")]);
}

/// Checks that one way of noticing undoes all of the meddling, and leaves nothing for the next start to do.
fn check(undo: impl Fn(&mut Lab) -> SyncReport + Send + 'static) {
    in_namespace(move || {
        let mut wrong = Vec::new();
        for (what, script) in meddling() {
            let mut lab = Lab::new(SERVICES);
            let before = (frame(), lab.contents());
            meddle(script);
            let report = undo(&mut lab);
            while lab.reconciler.run_deferred().expect("the deferred part").commits > 0 {}
            if (frame(), lab.contents()) != before {
                wrong.push(format!("{what} stays after {report:?}:\n{}", frame()));
            }
            if report.outcome == SyncOutcome::UpToDate {
                wrong.push(format!("{what} was not noticed"));
            }
            let mut next = Reconciler::new(Counting::new(client(IpFamily::V4)));
            let started = next.sync(lab.plan(), Trigger::verify()).expect("a start");
            let listings = next.kernel().listings;
            if started != SyncReport::default() || listings != 0 {
                wrong.push(format!("{what}: the next start reads {listings} times and does {started:?}"));
            }
            lab.reconciler.remove_everything().expect("the table goes");
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

/// Issue: a foreign `policy drop` on a base chain was reported as repaired, and stayed.
#[test]
fn a_repair_undoes_whatever_the_kernel_would_keep() {
    check(|lab| lab.repair().expect("a repair"));
}

#[test]
fn a_verification_undoes_whatever_the_kernel_would_keep() {
    check(|lab| lab.verify().expect("a verification"));
}

/// Issue: a foreign policy stayed over a restart, and so did an unused set.
#[test]
fn a_start_undoes_whatever_was_done_while_nobody_watched() {
    check(|lab| {
        lab.reconciler = Reconciler::new(client(IpFamily::V4));
        lab.verify().expect("a start")
    });
}
