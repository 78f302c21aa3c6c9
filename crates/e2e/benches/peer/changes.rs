//! One change at a time, from the request to the API server to the first packet that shows it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ferrule_testkit::Program;
use serde_json::json;

use crate::cluster::{
    cluster_ip, endpoint, endpoint_port, endpoints_json, make_service, make_slice, slice_path,
};
use crate::prober::{Times, time_until};
use crate::proxy::{Make, Site};

const PATIENCE: Duration = Duration::from_secs(30);
const TIMES: Times = Times { every: Duration::from_millis(1), patience: PATIENCE };

/// Times of changes of one kind, sorted, and the CPU time each cost.
pub struct Changes {
    pub times: Vec<Duration>,
    pub cpu: Duration,
}

impl Changes {
    /// The time that so many of a hundred stay under.
    pub fn percentile(&self, percent: usize) -> Duration {
        let at = (self.times.len() * percent).div_ceil(100).max(1) - 1;
        self.times.get(at).copied().unwrap_or(PATIENCE)
    }
}

/// kube-proxy takes a second or two for each.
fn how_many(make: Make) -> u32 {
    match make {
        Make::KubeProxy => 20,
        Make::Ferrule => 300,
    }
}

/// A Service that was not there, from the request for its endpoints on.
pub fn new_services(site: &Site<'_>, program: &Program, make: Make) -> Changes {
    let client = site.cluster.client();
    measured(program, how_many(make), || {
        let nth = site.cluster.unused();
        make_service(&client, nth);
        let began = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| make_slice(&client, nth, &[endpoint(nth)]));
            time_until(site.pod(), cluster_ip(nth), began, TIMES, |_| true)
        })
    })
}

/// The only endpoint of a Service replaced by another.
pub fn replaced_endpoints(site: &Site<'_>, program: &Program, make: Make) -> Changes {
    let client = site.cluster.client();
    let nth = site.cluster.unused();
    make_service(&client, nth);
    make_slice(&client, nth, &[endpoint(0)]);
    let is_served = time_until(site.pod(), cluster_ip(nth), Instant::now(), TIMES, |_| true);
    assert!(is_served.is_some(), "a new Service was never served");
    let mut version = 0;
    measured(program, how_many(make), || {
        version += 1;
        let wanted: SocketAddr = endpoint_port(version);
        let change = json!({ "endpoints": endpoints_json(&[endpoint(version)]) });
        let began = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| client.patch(&slice_path(nth), &change).expect("a change"));
            time_until(site.pod(), cluster_ip(nth), began, TIMES, |by| by == wanted)
        })
    })
}

fn measured(program: &Program, many: u32, mut change: impl FnMut() -> Option<Duration>) -> Changes {
    let before = program.processor_time();
    let mut times: Vec<Duration> = (0..many).map(|_| change().unwrap_or(PATIENCE)).collect();
    times.sort_unstable();
    Changes { times, cpu: program.processor_time().saturating_sub(before) / many }
}
