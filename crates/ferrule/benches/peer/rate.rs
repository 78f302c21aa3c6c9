//! Connections a second through a cluster IP, beside those straight to an endpoint.

use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ferrule_testkit::netns::Namespace;
use rustix::net::sockopt::set_socket_linger;

use crate::cluster::{cluster_ip, endpoint_port};
use crate::proxy::Site;

const CLIENTS: usize = 4;
const FOR: Duration = Duration::from_millis(1_500);
const ROUNDS: usize = 5;

/// Through a cluster IP, and direct.
pub struct Rates {
    pub through: f64,
    pub direct: f64,
}

/// In turns, so that whatever else the machine does is the same for both; the middle one of each counts.
pub fn measure(site: &Site<'_>) -> Rates {
    let nth = site.cluster.size.services / 2;
    let (mut through, mut direct) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        through.push(connects(site.pod(), cluster_ip(nth)));
        direct.push(connects(site.pod(), endpoint_port(nth * 10)));
    }
    Rates { through: middle(through), direct: middle(direct) }
}

fn middle(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn connects(from: &Namespace, to: SocketAddr) -> f64 {
    let made = AtomicU32::new(0);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| from.run(|| connect_until(to, began, &made)).expect("the namespace"));
        }
    });
    f64::from(made.into_inner()) / began.elapsed().as_secs_f64()
}

fn connect_until(to: SocketAddr, began: Instant, made: &AtomicU32) {
    let mut answer = [0; 64];
    while began.elapsed() < FOR {
        let Ok(mut stream) = TcpStream::connect(to) else { continue };
        if stream.read(&mut answer).is_ok_and(|length| length > 0) {
            made.fetch_add(1, Ordering::Relaxed);
        }
        // Ends with a reset: no port stays taken.
        let _ = set_socket_linger(&stream, Some(Duration::ZERO));
    }
}
