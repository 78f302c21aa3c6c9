//! Endpoints: one slice's worth, and the merging of a Service's slices into one list.
//!
//! Which of the merged endpoints traffic goes to is not decided here but in the plan's pools.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use crate::{IpFamily, NodeName, PortName, Protocol, ServiceName, Zone, text_order};

/// One `EndpointSlice`, stripped to what a proxy needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSlice {
    /// The Service it belongs to.
    pub service: ServiceName,
    /// The family of its addresses.
    pub family: IpFamily,
    /// Its ports, sorted; each holds for every endpoint of the slice.
    pub ports: Box<[SlicePort]>,
    /// Its endpoints in [`text_order`], one for each address.
    pub endpoints: Box<[Endpoint]>,
}

impl EndpointSlice {
    /// The ports that serve a Service port; more than one only if their numbers differ.
    pub fn ports_for(&self, name: &PortName, protocol: Protocol) -> &[SlicePort] {
        let before = |port: &SlicePort| (&port.name, port.protocol) < (name, protocol);
        let rest = &self.ports[self.ports.partition_point(before)..];
        &rest[..rest.partition_point(|port| port.name == *name && port.protocol == protocol)]
    }
}

/// One port of a slice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlicePort {
    /// The Service port it serves.
    pub name: PortName,
    /// Its protocol.
    pub protocol: Protocol,
    /// The number the endpoints listen on.
    pub number: u16,
}

/// One endpoint address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it is.
    pub ip: IpAddr,
    /// How it is.
    pub conditions: Conditions,
    /// Whether it is on this node.
    pub is_local: bool,
    /// Where its traffic should come from, if the control plane says so.
    pub hints: Option<Arc<Hints>>,
}

/// An endpoint's conditions, with the defaults of absent ones filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conditions {
    /// Should get new connections.
    pub ready: bool,
    /// Can answer, whether or not it is on its way out.
    pub serving: bool,
    /// Is on its way out.
    pub terminating: bool,
}

impl Conditions {
    /// Ready, serving, not terminating: what absent conditions mean.
    pub const READY: Self = Self { ready: true, serving: true, terminating: false };

    /// The last resort when nothing is ready: on its way out, but still answering.
    pub fn is_serving_and_terminating(self) -> bool {
        !self.ready && self.serving && self.terminating
    }
}

/// Where the control plane wants an endpoint's traffic to come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// `hints.forZones`
    pub zones: Box<[Zone]>,
    /// `hints.forNodes`
    pub nodes: Box<[NodeName]>,
}

/// One endpoint of a Service port, after merging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortEndpoint<'a> {
    /// Where it is.
    pub ip: IpAddr,
    /// The number it listens on.
    pub port: u16,
    /// How it is.
    pub conditions: Conditions,
    /// Whether it is on this node.
    pub is_local: bool,
    /// Where its traffic should come from.
    pub hints: Option<&'a Hints>,
}

/// Puts endpoints into [`text_order`] and removes duplicates within one slice.
///
/// A later duplicate replaces an earlier one unless it is terminating, so that a non-terminating entry always stays.
pub fn canonical_endpoints(mut endpoints: Vec<Endpoint>) -> Box<[Endpoint]> {
    endpoints.sort_by(|a, b| text_order(a.ip, b.ip));
    endpoints.dedup_by(|newcomer, kept| {
        let same = newcomer.ip == kept.ip;
        if same && !newcomer.conditions.terminating {
            std::mem::swap(newcomer, kept);
        }
        same
    });
    endpoints.into_boxed_slice()
}

/// Merges one port's endpoints out of a Service's slices of one family, which come in canonical order.
///
/// The result is sorted by the endpoints' text. Of two entries with the same address and port a non-terminating one
/// stays; among equals the slice that comes later in the order does.
pub fn merged<'a>(
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
    name: &PortName,
    protocol: Protocol,
) -> Vec<PortEndpoint<'a>> {
    merged_reporting(slices, name, protocol, |_| {})
}

/// The same, and hands over the entries that did not stay.
pub fn merged_reporting<'a>(
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
    name: &PortName,
    protocol: Protocol,
    mut duplicate: impl FnMut(&PortEndpoint<'a>),
) -> Vec<PortEndpoint<'a>> {
    let mut merged: Vec<PortEndpoint<'a>> = Vec::new();
    let mut runs = 0;
    for slice in slices {
        for port in slice.ports_for(name, protocol) {
            runs += 1;
            merged.extend(slice.endpoints.iter().map(|endpoint| at_port(endpoint, port.number)));
        }
    }
    if runs > 1 {
        merged.sort_by(by_text);
        merged.dedup_by(|newcomer, kept| {
            let same = merge_duplicate(newcomer, kept);
            if same {
                duplicate(newcomer);
            }
            same
        });
    }
    merged
}

fn at_port(endpoint: &Endpoint, port: u16) -> PortEndpoint<'_> {
    PortEndpoint {
        ip: endpoint.ip,
        port,
        conditions: endpoint.conditions,
        is_local: endpoint.is_local,
        hints: endpoint.hints.as_deref(),
    }
}

/// The order of the texts `ip:port`.
fn by_text(a: &PortEndpoint<'_>, b: &PortEndpoint<'_>) -> Ordering {
    text_order(a.ip, b.ip).then_with(|| decimal(a.port).cmp(&decimal(b.port)))
}

/// The digits of a port, left-aligned, so that arrays compare as the texts do.
fn decimal(port: u16) -> [u8; 5] {
    let mut digits = [0; 5];
    let mut at = 0;
    for place in [10_000, 1_000, 100, 10, 1] {
        if port >= place {
            // A digit is below ten.
            digits[at] = b'0' + u8::try_from(port / place % 10).unwrap_or_default();
            at += 1;
        }
    }
    digits
}

/// Whether two entries have the same address and port. If so, the one that stays ends up in `kept`.
fn merge_duplicate<'a>(newcomer: &mut PortEndpoint<'a>, kept: &mut PortEndpoint<'a>) -> bool {
    let same = newcomer.ip == kept.ip && newcomer.port == kept.port;
    if same && !newcomer.conditions.terminating {
        std::mem::swap(newcomer, kept);
    }
    same
}
