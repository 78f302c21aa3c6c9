//! All that is measured of one proxy at one size.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ferrule_kernel::conntrack::Conntrack;
use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::nft::Family;
use ferrule_testkit::Program;
use serde_json::{Value, json};

use crate::changes::{self, Changes};
use crate::cluster::{Cluster, Size};
use crate::proxy::{Make, Site};
use crate::rate::{self, Rates};
use crate::usage;

/// As conntrack numbers protocols.
const TCP: u8 = 6;
/// What is left of a change must have settled before memory is looked at.
const SETTLED: Duration = Duration::from_secs(2);

pub struct Measured {
    pub size: Size,
    pub make: Make,
    pub figures: Figures,
}

/// None of a figure means that it was not reached in time.
pub struct Figures {
    pub start: Option<Duration>,
    pub start_cpu: Duration,
    pub kernel: Option<f64>,
    pub new_service: Option<Changes>,
    pub replaced: Option<Changes>,
    pub resident: (f64, f64),
    pub written_at_restart: Option<u64>,
    pub rates: Option<Rates>,
}

impl Figures {
    /// One line, for whoever waits for the table.
    pub fn line(&self) -> String {
        let Some(start) = self.start else { return "  did not get ready in time".into() };
        let seconds = |changes: &Option<Changes>| {
            changes.as_ref().map_or(0.0, |changes| changes.percentile(50).as_secs_f64() * 1000.0)
        };
        format!(
            "  started in {:.2} s, new service {:.1} ms, endpoint {:.1} ms, {:.0} MiB",
            start.as_secs_f64(),
            seconds(&self.new_service),
            seconds(&self.replaced),
            self.resident.0
        )
    }

    pub fn json(&self) -> Value {
        let changes = |changes: &Option<Changes>| {
            changes.as_ref().map(|changes| {
                json!({
                    "tried": changes.times.len(),
                    "p50_ms": milliseconds(changes.percentile(50)),
                    "p99_ms": milliseconds(changes.percentile(99)),
                    "cpu_ms": milliseconds(changes.cpu),
                })
            })
        };
        json!({
            "start_s": self.start.map(|time| time.as_secs_f64()),
            "start_cpu_s": self.start_cpu.as_secs_f64(),
            "new_service": changes(&self.new_service),
            "endpoint_replaced": changes(&self.replaced),
            "resident_mib": self.resident.0,
            "resident_peak_mib": self.resident.1,
            "kernel_mib": self.kernel,
            "written_at_restart": self.written_at_restart,
            "connects_per_s": self.rates.as_ref().map(|rates| rates.through),
            "connects_direct_per_s": self.rates.as_ref().map(|rates| rates.direct),
        })
    }
}

pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// A proxy's node, with what was measured so far.
pub struct Measuring<'a> {
    site: Site<'a>,
    pub make: Make,
    pub figures: Figures,
}

/// Starts a proxy on an empty node, and measures. It does not run any more then, its rules stay.
pub fn measure(cluster: &Cluster, make: Make) -> Measuring<'_> {
    let site = Site::new(cluster, make);
    let figures = figures(&site, make);
    Measuring { site, make, figures }
}

/// What takes the rules of all proxies; they are gone then.
pub fn measure_rules(all: &mut [Measuring<'_>]) {
    let mut ready: Vec<_> = all.iter_mut().filter(|one| one.figures.start.is_some()).collect();
    let sites: Vec<_> = ready.iter().map(|one| &one.site).collect();
    let rates = rate::measure(&sites);
    for site in sites {
        forget_flows(site);
    }
    std::thread::sleep(SETTLED);
    for (one, rates) in ready.iter_mut().zip(rates) {
        one.figures.rates = Some(rates);
        one.figures.kernel = Some(freed(&one.site));
    }
}

fn figures(site: &Site<'_>, make: Make) -> Figures {
    let began = Instant::now();
    let program = site.start();
    let start = site.time_to_programmed(began);
    let mut figures = Figures {
        start,
        start_cpu: program.processor_time(),
        kernel: None,
        new_service: None,
        replaced: None,
        resident: program.resident(),
        written_at_restart: None,
        rates: None,
    };
    if start.is_none() {
        return figures;
    }
    site.wait_for_first_sync();
    figures.start_cpu = program.processor_time();
    std::thread::sleep(SETTLED);
    figures.new_service = Some(changes::new_services(site, &program, make));
    figures.replaced = Some(changes::replaced_endpoints(site, &program, make));
    std::thread::sleep(SETTLED);
    figures.resident = program.resident();
    figures.written_at_restart = Some(restarted(site, program));
    figures
}

/// Makes the kernel forget the connections of a node: what it keeps of them is not the rules'.
fn forget_flows(site: &Site<'_>) {
    let forget = || {
        let mut conntrack = Conntrack::open()?;
        for flow in conntrack.flows(Family::Ip, TCP)?.items {
            // It may have gone by itself meanwhile.
            let _ = conntrack.delete(&flow);
        }
        Ok::<(), NetlinkError>(())
    };
    site.net.node().run(forget).expect("the namespace").expect("conntrack");
}

/// How much the kernel keeps less once the rules are gone. Everything on the machine counts, so this is done quickly.
fn freed(site: &Site<'_>) -> f64 {
    let before = usage::kernel();
    for family in ["ip", "ip6"] {
        // A proxy that serves one family has no other table.
        let _ = site.net.node().feed("nft", &["delete", "table", family, "kube-proxy"], "");
    }
    std::thread::sleep(SETTLED);
    before - usage::kernel()
}

/// How many objects a start writes that has nothing to change, as the kernel tells them to whoever listens.
fn restarted(site: &Site<'_>, program: Program) -> u64 {
    program.kill().expect("it is killed");
    let monitor = || Command::new("nft").arg("monitor").stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut monitor = site.net.node().run(monitor).expect("the namespace").expect("nft monitor");
    let written = Arc::new(AtomicU64::new(0));
    let counting = Arc::clone(&written);
    let output = monitor.stdout.take().expect("its output");
    let reader = std::thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        lines
            .filter(|line| !line.starts_with('#'))
            .for_each(|_| _ = counting.fetch_add(1, Ordering::Relaxed));
    });
    std::thread::sleep(SETTLED);
    let program = site.start();
    site.wait_for_first_sync();
    std::thread::sleep(SETTLED);
    program.kill().expect("it is killed");
    let _ = monitor.kill();
    let _ = monitor.wait();
    let _ = reader.join();
    written.load(Ordering::Relaxed)
}
