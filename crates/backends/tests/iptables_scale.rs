//! Two thousand Services: a change is a text of some lines, whatever there is beside it, and a start writes nothing.
#![allow(clippy::print_stdout, reason = "the test says how long things took")]

mod support;

use std::time::{Duration, Instant};

use ferrule_backends::SyncOutcome;
use ferrule_backends::iptables::Host;
use support::iptables::{Writer, with_iptables};
use support::xtables::{Lab, world};

const SERVICES: u16 = 2000;

fn facts() -> String {
    let service = |number: u16| {
        let [high, low] = number.to_be_bytes();
        format!(
            "service s{number} NodePort clusterIP 10.96.{high}.{low} port http 80→8080 nodePort {}\n\
             endpoint s{number} 10.244.{high}.{low} node a\nendpoint s{number} 10.245.{high}.{low} node b\n",
            20_000 + number
        )
    };
    (1..=SERVICES).map(service).collect::<Vec<_>>().concat()
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    (work(), began.elapsed())
}

#[test]
fn a_change_costs_the_change_and_a_start_nothing() {
    with_iptables(|| {
        let facts = facts();
        for writer in Writer::ALL {
            let (mut lab, made) = timed(|| Lab::with(world(&facts), writer.tables(), Host::default()));
            assert_eq!(lab.restores(), 1);
            let (mut again, adopted) = timed(|| Lab::with(world(&facts), writer.tables(), Host::default()));
            assert_eq!(again.restores(), 0, "a start with nothing to change writes nothing");
            let (report, endpoint) = timed(|| lab.then("endpoint s7 10.246.0.7 node b"));
            assert!(report.written < 10 && lab.text().len() < 2000, "{}", lab.text());
            let new = "service new NodePort clusterIP 10.97.0.1 port http 80→8080 nodePort 32000\nendpoint new 10.246.0.8 node b";
            let (report, added) = timed(|| lab.then(new));
            assert!(report.written < 20 && lab.text().len() < 3000, "{}", lab.text());
            let (_, gone) = timed(|| lab.then("gone service new\ngone endpoint s7 10.246.0.7"));
            assert_eq!(lab.verify().expect("a verification").outcome, SyncOutcome::UpToDate);
            println!(
                "{writer:?}, {SERVICES} Services: made {made:?}, adopted {adopted:?} (both with planning); \
                 endpoint {endpoint:?}, new Service {added:?}, gone {gone:?}"
            );
            lab.reconciler.remove_everything().expect("a removal");
        }
    });
}
