//! What others do to the node: the API server goes away, rules are flushed, the proxy is killed or asked to end.

use std::time::{Duration, Instant};

use ferrule_testkit::Program;

use crate::Run;
use crate::site::Site;

/// At least this much between two; a long run has longer ones.
const AT_LEAST: Duration = Duration::from_secs(3);
const KINDS: u32 = 5;

/// The proxy, and whoever disturbs it.
pub struct Disruptions {
    proxy: Option<Program>,
    done: Disrupted,
}

/// What was done.
#[derive(Default)]
pub struct Disrupted {
    /// From when to when rules were missing, and how they went.
    pub flushes: Vec<Flush>,
    pub server_restarts: usize,
    pub proxy_restarts: usize,
    /// MiB of anonymous memory, each with the number of the process; the process is the same in the second half.
    pub memory: Vec<(u32, f64)>,
    pub proxy: Option<Program>,
}

/// Rules that somebody took away.
pub struct Flush {
    pub began: Instant,
    pub ended: Instant,
    /// The chains too, and with them the kernel's translation of connections that were there before.
    pub is_deletion: bool,
}

impl Disruptions {
    pub fn new(proxy: Program) -> Self {
        Self { proxy: Some(proxy), done: Disrupted::default() }
    }

    pub fn go_on(mut self, site: &Site, run: &Run) -> Disrupted {
        // Each kind four times, and no more often than is fair on a slow machine.
        let between = (run.lasts / (4 * KINDS)).max(AT_LEAST);
        for turn in 0.. {
            run.pause(between);
            if !run.goes_on() {
                break;
            }
            self.look();
            self.disturb(site, run, turn % KINDS);
        }
        self.look();
        self.done.proxy = self.proxy;
        self.done
    }

    fn disturb(&mut self, site: &Site, run: &Run, kind: u32) {
        let is_first_half = run.began.elapsed() < run.lasts / 2;
        match kind {
            0 if is_first_half => self.restart(site, |proxy| drop(proxy.kill())),
            1 => self.flush(site, "delete"),
            2 if is_first_half => self.restart(site, |proxy| drop(proxy.terminate())),
            3 => {
                site.server.stop_api_server();
                run.pause(AT_LEAST);
                site.server.start_api_server().map_err(|error| error.with_sources()).expect("the API server");
                self.done.server_restarts += 1;
            }
            _ => self.flush(site, "flush"),
        }
    }

    fn restart(&mut self, site: &Site, end: impl Fn(Program)) {
        if let Some(proxy) = self.proxy.take() {
            end(proxy);
        }
        self.proxy = Some(site.serve());
        self.done.proxy_restarts += 1;
    }

    fn flush(&mut self, site: &Site, how: &str) {
        let began = Instant::now();
        site.net.node().feed("nft", &[how, "table", "ip", "kube-proxy"], "").expect("nft");
        site.until_served();
        self.done.flushes.push(Flush { began, ended: Instant::now(), is_deletion: how == "delete" });
    }

    fn look(&mut self) {
        if let Some(proxy) = &self.proxy {
            self.done.memory.push((proxy.id(), proxy.anonymous_memory()));
        }
    }
}
