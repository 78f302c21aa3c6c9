//! Processes of the comparison: descriptors, namespace, children that end with their parent, what they use.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A child that is killed when it goes out of scope.
#[derive(Debug)]
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

/// Tens of thousands of connections, each with two descriptors in the proxy.
pub fn raise_descriptor_limit() {
    let limit = Rlimit { current: Some(200_000), maximum: Some(200_000) };
    if setrlimit(Resource::Nofile, limit).is_err() {
        let hard = getrlimit(Resource::Nofile).maximum;
        let _ = setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard });
    }
}

pub fn descriptor_limit() -> usize {
    getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

/// Enters a network of our own, which a user namespace owns: kube-proxy 1.25 insists on 64,000 descriptors unless it runs in one.
/// Both exist as long as the process that is returned.
pub fn enter_namespace() -> Running {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "sh", "-c", "echo; exec cat"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("running unshare");
    let stdout = child.stdout.take().expect("stdout is a pipe");
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line)
        .expect("unshare makes namespaces");
    let network = std::fs::File::open(format!("/proc/{}/ns/net", child.id())).expect("the new namespace");
    let kind = Some(rustix::thread::LinkNameSpaceType::Network);
    rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&network), kind)
        .expect("entering it; run as root");
    for arguments in [&["link", "set", "lo", "up"][..], &["address", "add", "10.1.0.1/24", "dev", "lo"]] {
        ip(arguments);
    }
    for host in crate::endpoints::HOSTS {
        ip(&["address", "add", host, "dev", "lo"]);
    }
    for (setting, value) in [
        ("/proc/sys/net/ipv4/ip_local_port_range", "2000 65000"),
        ("/proc/sys/net/core/somaxconn", "8192"),
        ("/proc/sys/net/ipv4/tcp_max_syn_backlog", "8192"),
    ] {
        let _ = std::fs::write(setting, value);
    }
    Running(child)
}

pub fn ip(arguments: &[&str]) {
    let done = Command::new("ip").args(arguments).status();
    assert!(done.is_ok_and(|status| status.success()), "ip {}", arguments.join(" "));
}

/// This program again, in another role.
pub fn again(role: &[&str]) -> Running {
    let program = std::env::current_exe().expect("the path of this program");
    let mut child =
        Command::new(program).args(role).stdout(Stdio::piped()).spawn().expect("starting this program again");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("stdout is a pipe");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line)
        .expect("reading its addresses");
    assert_eq!(line.trim(), "ready", "in the role {role:?}");
    Running(child)
}

/// Processor time of a process so far.
pub fn cpu(process: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let after_name = text.rsplit(')').next().unwrap_or_default();
    let fields: Vec<u64> =
        after_name.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    // utime and stime, in hundredths of a second.
    Duration::from_millis(10 * (fields.get(10).unwrap_or(&0) + fields.get(11).unwrap_or(&0)))
}

/// Resident memory of a process in bytes.
pub fn resident(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kilobytes| kilobytes.parse::<u64>().ok()).unwrap_or(0) << 10
}
