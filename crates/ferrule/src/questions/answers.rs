//! The answers as plain data. Their JSON is an interface that scripts use: fields are added, never renamed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What becomes of a packet, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The node that was asked.
    pub node: String,
    /// Its proxy mode.
    pub mode: String,
    /// The packet in question.
    pub packet: AskedPacket,
    /// What becomes of it.
    pub verdict: PacketVerdict,
    /// The Service port that decides, as `namespace/name:port`.
    pub service: Option<String>,
    /// The address or node port that the packet meets.
    pub frontend: Option<String>,
    /// Where it may go, as `ip:port`.
    pub endpoints: Vec<String>,
    /// Whether the endpoint sees an address of this node as the source, whichever endpoint is chosen.
    pub masquerade: bool,
    /// The same for each endpoint: one that gets its own packet back has it masqueraded in any case.
    pub deliveries: Vec<Delivered>,
    /// Whether a client keeps its endpoint.
    pub affinity: Option<Affinity>,
    /// The rule that decides.
    pub rule: String,
    /// Why it is so, most important first.
    pub reasons: Vec<String>,
    /// Other Services that claim the frontend.
    pub also_claimed_by: Vec<String>,
    /// Every endpoint of the Service port, and why it is used or not.
    pub pool: Vec<PoolMember>,
    /// Whether the cluster has changed since the plan was made.
    pub pending_changes: bool,
    /// Whether the kernel holds what the plan says about the frontend.
    pub kernel: KernelVerdict,
    /// What the kernel holds.
    pub kernel_detail: KernelDetail,
}

/// The packet in question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AskedPacket {
    /// Its source address.
    pub from: String,
    /// The interface it comes in on, as far as that matters.
    pub interface: Option<String>,
    /// Its destination address.
    pub to: String,
    /// `tcp`, `udp` or `sctp`; none for a packet without ports.
    pub protocol: Option<String>,
    /// Its destination port.
    pub port: Option<u16>,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PacketVerdict {
    /// It goes to an endpoint.
    Forward,
    /// It is answered with an error.
    Reject,
    /// It is discarded.
    Drop,
    /// No rule is about it.
    None,
}

/// One way a packet can go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivered {
    /// `ip:port`
    pub endpoint: String,
    /// Whether the endpoint sees an address of this node as the source.
    pub masquerade: bool,
}

/// Session affinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Affinity {
    /// How long a client that is silent keeps its endpoint.
    pub seconds: u32,
}

/// An endpoint of a Service port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolMember {
    /// `ip:port`, or the address alone if its slice has no such port.
    pub endpoint: String,
    /// Whether connections of this packet's kind may go to it.
    pub used: bool,
    /// Why.
    pub why: String,
    /// Whether it is on this node.
    pub local: bool,
    /// Its conditions, such as `ready` or `serving, terminating`.
    pub conditions: String,
}

/// Whether the kernel holds what the plan says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KernelVerdict {
    /// All of it.
    Agrees,
    /// Some of it is not there.
    Missing,
    /// It holds something else.
    Differs,
    /// It was not read.
    #[default]
    Unknown,
}

/// What the kernel holds for a frontend, in the words of its own tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelDetail {
    /// What is there.
    pub holds: Vec<String>,
    /// What is not as planned: a line for each piece.
    pub differences: Vec<String>,
    /// Base chains of other programs on the packet's way that may drop or reject it.
    #[serde(default)]
    pub others: Vec<String>,
    /// Why it was not read, if so.
    pub problem: Option<String>,
}

/// The plan of a node, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanAnswer {
    /// The node that was asked.
    pub node: String,
    /// Its proxy mode.
    pub mode: String,
    /// Whether the cluster has changed since the plan was made.
    pub pending_changes: bool,
    /// How many frontends match, whether they are all listed or not.
    pub total: usize,
    /// Addresses and node ports, each with its rules in order.
    pub frontends: Vec<FrontendRow>,
    /// The endpoints behind them.
    pub pools: Vec<PoolRow>,
}

/// An address or node port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrontendRow {
    /// `IPv4` or `IPv6`.
    pub family: String,
    /// Such as `10.96.0.10:80/tcp`.
    pub frontend: String,
    /// The Service port that has it.
    pub service: String,
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalIP`.
    pub kind: String,
    /// The first that is about the packet's source decides.
    pub rules: Vec<RuleRow>,
}

/// One rule of a frontend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleRow {
    /// Whose packets it is about.
    pub from: String,
    /// What becomes of them.
    pub then: String,
}

/// A pool of endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolRow {
    /// `IPv4` or `IPv6`.
    pub family: String,
    /// The Service port it belongs to.
    pub service: String,
    /// `cluster` or `local`.
    pub scope: String,
    /// `ip:port` each.
    pub endpoints: Vec<String>,
    /// How long a client keeps its endpoint, if it does.
    pub affinity_seconds: Option<u32>,
}

/// What a sync would write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffAnswer {
    /// The node that was asked.
    pub node: String,
    /// Its proxy mode.
    pub mode: String,
    /// What the kernel is compared with: `cluster`, or `manifests`.
    pub with: String,
    /// By family.
    pub families: BTreeMap<String, FamilyDiff>,
}

/// What a sync of one family would write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FamilyDiff {
    /// Commands or lines, in the words of the tool that operators know.
    pub lines: Vec<String>,
    /// Why that could not be found out, if so.
    pub error: Option<String>,
}

/// Connections since they are counted, for each Service port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountersAnswer {
    /// Whether connections are counted at all (`--service-counters`).
    pub enabled: bool,
    /// The Service ports that are counted.
    pub services: Vec<ServiceCounters>,
}

/// What was counted for a Service port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceCounters {
    /// `namespace/name:port`
    pub service: String,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// Connections, also those to endpoints that are gone.
    pub connections: u64,
    /// Packets in both directions, where the mode has them.
    pub packets: Option<u64>,
    /// Bytes in both directions, where the mode has them.
    pub bytes: Option<u64>,
    /// Its endpoints, and those that left not long ago.
    pub endpoints: Vec<EndpointCounters>,
}

/// What was counted for an endpoint of a Service port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointCounters {
    /// `ip:port`
    pub endpoint: String,
    /// Connections.
    pub connections: u64,
    /// Packets in both directions, where the mode has them.
    pub packets: Option<u64>,
    /// Bytes in both directions, where the mode has them.
    pub bytes: Option<u64>,
}
