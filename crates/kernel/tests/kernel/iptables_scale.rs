//! Very many rules: how long they take to be written and read, and that all of them are there.
//!
//! `FERRULE_TEST_SERVICES=5000` writes 160,000 rules.

use std::env;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use ferrule_kernel::iptables::RestoreText;
use ferrule_kernel::iptables::direct::NetlinkTables;
use ferrule_kernel::nft::Family;
use ferrule_kernel::port::XTables as _;

use crate::support::iptables_program::with_iptables;

const ENDPOINTS: u32 = 10;

/// The rules that kube-proxy writes for so many Services in a large cluster.
fn rules(services: u32) -> String {
    let (mut chains, mut rules) =
        (String::from("*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n"), String::new());
    for service in 0..services {
        let address = format!("10.{}.{}.{}", 96 + (service >> 16), service >> 8 & 255, service & 255);
        let _ = writeln!(chains, ":KUBE-SVC-{service:016} - [0:0]");
        let about = format!(
            "-m comment --comment \"namespace/service-{service}:http cluster IP\" -m tcp -p tcp -d {address} --dport 80"
        );
        let _ = writeln!(rules, "-A KUBE-SERVICES {about} -j KUBE-SVC-{service:016}");
        let _ = writeln!(rules, "-A KUBE-SVC-{service:016} {about} ! -s 10.244.0.0/16 -j KUBE-MARK-MASQ");
        for endpoint in 0..ENDPOINTS {
            let number = service * ENDPOINTS + endpoint;
            let address = format!("10.{}.{}.{}", 128 + (number >> 16), number >> 8 & 255, number & 255);
            let _ = writeln!(chains, ":KUBE-SEP-{number:016} - [0:0]");
            let share = match ENDPOINTS - endpoint {
                1 => String::new(),
                left => format!("-m statistic --mode random --probability {:.10} ", 1.0 / f64::from(left)),
            };
            let _ = writeln!(rules, "-A KUBE-SVC-{service:016} {share}-j KUBE-SEP-{number:016}");
            let _ = writeln!(rules, "-A KUBE-SEP-{number:016} -s {address} -j KUBE-MARK-MASQ");
            let _ = writeln!(
                rules,
                "-A KUBE-SEP-{number:016} -m tcp -p tcp -j DNAT --to-destination {address}:8080"
            );
        }
    }
    chains + &rules + "COMMIT\n"
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    (work(), began.elapsed())
}

#[test]
fn very_many_rules_are_written_and_read() {
    with_iptables(|| {
        let services = env::var("FERRULE_TEST_SERVICES").map_or(200, |services| services.parse().unwrap());
        let text = rules(services);
        let written = text.lines().filter(|line| line.starts_with("-A")).count();
        let text = RestoreText::literal(text.leak());
        let mut tables = NetlinkTables::open(Family::Ip).unwrap();
        let (done, trial) = timed(|| tables.test(&text));
        done.unwrap();
        assert_eq!(tables.save().unwrap().rules(), 0, "a test changes nothing");
        let (done, first) = timed(|| tables.restore(&text));
        done.unwrap();
        let (saved, read) = timed(|| tables.save().unwrap());
        assert_eq!(saved.rules(), written);
        let (done, again) = timed(|| tables.restore(&text));
        done.unwrap();
        let one = RestoreText::literal(
            "*nat\n-D KUBE-SERVICES -d 10.96.0.7 -p tcp -m comment --comment \"namespace/service-7:http cluster IP\" -m tcp --dport 80 -j KUBE-SVC-0000000000000007\nCOMMIT\n",
        );
        let (done, deleted) = timed(|| tables.restore(&one));
        done.unwrap();
        assert_eq!(tables.save().unwrap().rules(), written - 1);
        println!(
            "{written} rules: tested {trial:?}, written {first:?}, read {read:?}, written again {again:?}, one deleted {deleted:?}"
        );
    });
}
