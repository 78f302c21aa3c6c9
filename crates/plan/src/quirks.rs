//! Each known difference between kube-proxy's modes, by name.
//!
//! The planner does not know which backend runs; a backend declares its quirks and the plan comes out accordingly.
//! Differences that no packet can see (how rules are written, when a flush is noticed) are not quirks of the plan.

use std::fmt;

/// One way in which a mode of kube-proxy differs from the table in the crate's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Quirk {
    /// nftables: a cluster IP's unused ports, and everything else sent to it, are rejected.
    RejectUnusedClusterIpPorts,
    /// nftables: addresses of the service ranges that no Service has are dropped.
    DropUnallocatedClusterIps,
    /// iptables: with no endpoint at all, source ranges are not enforced and every packet is rejected.
    RangesIgnoredWithoutEndpoints,
    /// iptables: the host's own packets to external addresses without endpoints leave the node, since those rejects
    /// are on the input and forward path only. Packets to an address of the node itself pass the input path.
    HostBypassesExternalRefusals,
    /// iptables: a NodePort that refuses everyone does so on every local address, `nodePortAddresses` or not.
    NodePortRefusalsEverywhere,
    /// iptables: any endpoint that gets its own packet back has it masqueraded. Other modes do this only for endpoints
    /// on this node; elsewhere it takes further routing to happen.
    HairpinOfAnyEndpoint,
    /// ipvs: policy `Local` with no endpoint here uses all endpoints instead of dropping.
    LocalFallsBackToCluster,
    /// ipvs: one pool for each virtual server, so no traffic is short-circuited past policy `Local`.
    OnePoolPerFrontend,
    /// ipvs: unused ports of every service address are rejected, not of cluster IPs alone; but not of an external one
    /// that is the node's own.
    RejectUnusedPortsEverywhere,
    /// ipvs: NodePorts are bound to a list of addresses even if all match, which leaves out IPv6 link-local ones.
    NodePortAddressesListed,
    /// ipvs: services, not their ports, are counted as having no local endpoints.
    CountServicesWithoutLocalEndpoints,
    /// ipvs: this host's packets to a load balancer without endpoints are rejected, whatever its source ranges, which are checked
    /// behind the virtual server.
    HostRefusedBeforeRanges,
    /// ipvs: an endpoint on this node that gets its own packet back has it masqueraded even if the endpoint is not in use:
    /// connections to endpoints that leave go on.
    HairpinOfUnusedEndpoints,
    /// userspace: this process accepts connections and connects to endpoints itself. They see an address of the node; TCP clients
    /// that are refused are reset, UDP ones get no answer; SCTP is left alone.
    RelayedByProcess,
    /// userspace: the host's own packets to an external IP that is not the node's leave the node.
    HostBypassesExternalIps,
}

/// A set of quirks.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Quirks(u32);

impl Quirks {
    /// None: the table as it stands.
    pub const NONE: Self = Self(0);
    /// What kube-proxy's nftables mode does.
    pub const NFTABLES: Self =
        Self::of(&[Quirk::RejectUnusedClusterIpPorts, Quirk::DropUnallocatedClusterIps]);
    /// What kube-proxy's iptables mode does.
    pub const IPTABLES: Self = Self::of(&[
        Quirk::RangesIgnoredWithoutEndpoints,
        Quirk::HostBypassesExternalRefusals,
        Quirk::NodePortRefusalsEverywhere,
        Quirk::HairpinOfAnyEndpoint,
    ]);
    /// What kube-proxy's ipvs mode does.
    pub const IPVS: Self = Self::of(&[
        Quirk::LocalFallsBackToCluster,
        Quirk::OnePoolPerFrontend,
        Quirk::RejectUnusedClusterIpPorts,
        Quirk::RejectUnusedPortsEverywhere,
        Quirk::NodePortAddressesListed,
        Quirk::CountServicesWithoutLocalEndpoints,
        Quirk::HostRefusedBeforeRanges,
        Quirk::HairpinOfUnusedEndpoints,
    ]);

    /// What kube-proxy's userspace mode did, with policies, source ranges and `nodePortAddresses`, which it ignored.
    pub const USERSPACE: Self = Self::of(&[Quirk::RelayedByProcess, Quirk::HostBypassesExternalIps]);

    /// A set of the given quirks.
    pub const fn of(quirks: &[Quirk]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < quirks.len() {
            bits |= 1 << quirks[at] as u32;
            at += 1;
        }
        Self(bits)
    }

    /// Whether a quirk is among them.
    pub const fn has(self, quirk: Quirk) -> bool {
        self.0 & (1 << quirk as u32) != 0
    }
}

impl fmt::Debug for Quirks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Self::NONE => "none",
            Self::NFTABLES => "nftables",
            Self::IPTABLES => "iptables",
            Self::IPVS => "ipvs",
            Self::USERSPACE => "userspace",
            _ => return write!(f, "Quirks({:#b})", self.0),
        };
        write!(f, "Quirks({name})")
    }
}
