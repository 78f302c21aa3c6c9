//! What a process costs, and what it answers.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use ferrule_testkit::Program;
use ferrule_testkit::netns::Namespace;

const PATIENCE: Duration = Duration::from_secs(30);
/// The kernel counts CPU time in hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

/// What a start cost.
pub struct Measured {
    pub took: Duration,
    pub cpu: Duration,
    pub resident: f64,
    pub written: u64,
}

impl Measured {
    pub fn of(node: &Namespace, program: &Program, took: Duration) -> Self {
        let metrics = page(node, 10249, "/metrics").unwrap_or_default();
        let lines = metrics.lines().filter(|line| line.starts_with("ferrule_start_objects_written{"));
        let written = lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum();
        Self { took, cpu: cpu(program.id()), resident: resident(program.id()), written }
    }
}

/// CPU time a process has used.
pub fn cpu(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks = after_name.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u32>().ok());
    TICK * ticks.sum()
}

/// Resident memory in MiB.
pub fn resident(process: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().unwrap_or(0.0);
    kib / 1024.0
}

/// The status of a page.
pub fn status(node: &Namespace, port: u16, path: &str) -> Option<u16> {
    answer(node, port, path)?.split(' ').nth(1)?.parse().ok()
}

/// The text of a page.
pub fn page(node: &Namespace, port: u16, path: &str) -> Option<String> {
    Some(answer(node, port, path)?.split_once("\r\n\r\n")?.1.to_owned())
}

fn answer(node: &Namespace, port: u16, path: &str) -> Option<String> {
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    node.run(ask).ok()?.ok()
}
