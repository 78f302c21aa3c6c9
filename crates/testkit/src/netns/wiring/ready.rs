//! Waits until links and addresses work: the kernel completes both shortly after `ip` has returned.

use std::net::IpAddr;

use super::{UPLINK, Wired};
use crate::netns::{Namespace, NetError, NetSpec, Place};

/// Each check takes milliseconds, and usually the first succeeds.
const MAX_CHECKS: usize = 1000;

pub(super) fn wait(spec: &NetSpec, wired: &Wired) -> Result<(), NetError> {
    for_links(wired)?;
    for_addresses(&wired.node, &spec.node)?;
    for (address, pod) in &wired.pods {
        for_addresses(pod, &[*address])?;
    }
    let beyond = spec.hosts.iter().filter(|(_, host)| host.place == Place::Beyond);
    for_addresses(&wired.beyond, &beyond.map(|(address, _)| *address).collect::<Vec<_>>())
}

/// The end of a link that was set up first notices the other end with a delay, and drops packets until then. The node's
/// ends are the first ones.
fn for_links(wired: &Wired) -> Result<(), NetError> {
    let links = wired.interfaces.values().map(String::as_str).chain([UPLINK]);
    let commands: Vec<String> = links.map(|link| format!("link show dev {link}\n")).collect();
    let commands = commands.concat();
    let wanted = wired.interfaces.len() + 1;
    until(&wired.node, &commands, |shown| shown.matches(" state UP ").count() == wanted)
}

/// Even without duplicate address detection, the kernel adds an IPv6 address to the routing table asynchronously; until
/// then, packets to it are lost.
fn for_addresses(namespace: &Namespace, addresses: &[IpAddr]) -> Result<(), NetError> {
    let wanted = addresses.iter().filter(|address| address.is_ipv6());
    let wanted: Vec<String> = wanted.map(|address| format!("local {address} dev")).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let is_there = |shown: &str| wanted.iter().all(|route| shown.contains(route));
    until(namespace, "route show table local\n", is_there)
}

/// Repeats a command until its output satisfies a condition.
fn until(namespace: &Namespace, commands: &str, is_there: impl Fn(&str) -> bool) -> Result<(), NetError> {
    let mut shown = String::new();
    for _ in 0..MAX_CHECKS {
        // `-6` decides whose routes are shown; links have no family.
        let output = namespace.feed("ip", &["-6", "-oneline", "-batch", "-"], commands)?;
        shown = String::from_utf8_lossy(&output.stdout).into_owned();
        if is_there(&shown) {
            return Ok(());
        }
    }
    Err(NetError::NotReady { name: namespace.name().into(), shown })
}
