//! Waits until what was wired works: the kernel finishes links and IPv6 addresses a moment after it was told to.

use std::net::IpAddr;

use super::{UPLINK, Wired};
use crate::netns::{Namespace, NetError, NetSpec, Place};

/// How often is looked; usually once, and each look takes milliseconds.
const LOOKS: usize = 1000;

pub(super) fn wait(spec: &NetSpec, wired: &Wired) -> Result<(), NetError> {
    for_links(wired)?;
    for_addresses(&wired.node, &spec.node)?;
    for (address, pod) in &wired.pods {
        for_addresses(pod, &[*address])?;
    }
    let beyond = spec.hosts.iter().filter(|(_, host)| host.place == Place::Beyond);
    for_addresses(&wired.beyond, &beyond.map(|(address, _)| *address).collect::<Vec<_>>())
}

/// Of two ends of a cable, the one that was set up first learns of the other one's coming a moment later, and loses what
/// it is given until then. The node's ends are the first ones.
fn for_links(wired: &Wired) -> Result<(), NetError> {
    let links = wired.interfaces.values().map(String::as_str).chain([UPLINK]);
    let look: Vec<String> = links.map(|link| format!("link show dev {link}\n")).collect();
    let look = look.concat();
    let wanted = wired.interfaces.len() + 1;
    until(&wired.node, &look, |shown| shown.matches(" state UP ").count() == wanted)
}

/// Even without duplicate address detection, an IPv6 address is put into the routing table by work that is done later;
/// until then nothing that is sent to it arrives.
fn for_addresses(namespace: &Namespace, addresses: &[IpAddr]) -> Result<(), NetError> {
    let wanted = addresses.iter().filter(|address| address.is_ipv6());
    let wanted: Vec<String> = wanted.map(|address| format!("local {address} dev")).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let is_there = |shown: &str| wanted.iter().all(|route| shown.contains(route));
    until(namespace, "route show table local\n", is_there)
}

/// Looks again and again until all is there.
fn until(namespace: &Namespace, look: &str, is_there: impl Fn(&str) -> bool) -> Result<(), NetError> {
    let mut shown = String::new();
    for _ in 0..LOOKS {
        // `-6` decides whose routes are shown; links have no family.
        let output = namespace.feed("ip", &["-6", "-oneline", "-batch", "-"], look)?;
        shown = String::from_utf8_lossy(&output.stdout).into_owned();
        if is_there(&shown) {
            return Ok(());
        }
    }
    Err(NetError::NotReady { name: namespace.name().into(), shown })
}
