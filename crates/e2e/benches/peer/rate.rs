//! Connections a second through cluster IPs, beside those straight to endpoints.
//!
//! Clients go round all Services, as a cluster's do: one Service asked over and over would be in the processor's caches. Both
//! proxies' nodes take turns, many and short ones, so that whatever else the machine does is the same for both. No proxy runs
//! meanwhile: connections meet rules only.

use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ferrule_testkit::netns::Namespace;
use rustix::net::sockopt::set_socket_linger;

use crate::cluster::{cluster_ip, endpoint_port};
use crate::proxy::Site;

const CLIENTS: usize = 4;
const FOR: Duration = Duration::from_millis(25);
const ROUNDS: usize = 240;
/// Far from one Service to the next, and a prime: it comes round to all of them.
const STRIDE: usize = 7_919;

/// Through cluster IPs, and direct.
pub struct Rates {
    pub through: f64,
    pub direct: f64,
}

/// For each node, of all its rounds.
pub fn measure(sites: &[&Site<'_>]) -> Vec<Rates> {
    let mut rounds: Vec<(Vec<f64>, Vec<f64>)> = sites.iter().map(|_| (Vec::new(), Vec::new())).collect();
    let next = AtomicUsize::new(0);
    for round in 0..ROUNDS {
        let mut turns: Vec<_> = sites.iter().zip(&mut rounds).collect();
        if round % 2 == 1 {
            turns.reverse();
        }
        for (site, (through, direct)) in turns {
            through.push(connects(site, &next, cluster_ip));
            direct.push(connects(site, &next, |nth| endpoint_port(nth * 10)));
        }
    }
    rounds
        .into_iter()
        .map(|(through, direct)| Rates { through: middle(through), direct: middle(direct) })
        .collect()
}

/// The mean of the middle half: what keeps the machine busy for a moment does not count.
fn middle(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    let quarter = rates.len() / 4;
    let middle = &rates[quarter..rates.len() - quarter];
    let (sum, count) = middle.iter().fold((0.0, 0.0), |(sum, count), rate| (sum + rate, count + 1.0));
    sum / count
}

fn connects(site: &Site<'_>, next: &AtomicUsize, to: impl Fn(usize) -> SocketAddr + Sync) -> f64 {
    let made = AtomicU32::new(0);
    let another = || to(next.fetch_add(STRIDE, Ordering::Relaxed) % site.cluster.size.services);
    let from: &Namespace = site.pod();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| from.run(|| connect_until(another, began, &made)).expect("the namespace"));
        }
    });
    f64::from(made.into_inner()) / began.elapsed().as_secs_f64()
}

fn connect_until(to: impl Fn() -> SocketAddr, began: Instant, made: &AtomicU32) {
    let mut answer = [0; 64];
    while began.elapsed() < FOR {
        let Ok(mut stream) = TcpStream::connect(to()) else { continue };
        if stream.read(&mut answer).is_ok_and(|length| length > 0) {
            made.fetch_add(1, Ordering::Relaxed);
        }
        // Ends with a reset: no port stays taken.
        let _ = set_socket_linger(&stream, Some(Duration::ZERO));
    }
}
