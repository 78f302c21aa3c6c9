//! Ports of the host that no other process may use while they are a Service's: NodePorts, and Service addresses that the node has.
//!
//! A claim is a socket that is never read. Rules redirect packets before they reach it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ferrule_model::{IpFamily, ServicePortName};

use super::portals::{Socket, SocketError};
use super::sockets::open;
use super::wanted::Claim;

/// The claims of one family.
#[derive(Debug)]
pub(super) struct Claims {
    family: IpFamily,
    held: BTreeMap<Claim, Socket>,
}

/// A port that another process has.
#[derive(Debug)]
pub(super) struct FailedClaim {
    pub claim: Claim,
    pub owner: ServicePortName,
    pub error: SocketError,
}

impl Claims {
    pub(super) fn new(family: IpFamily) -> Self {
        Self { family, held: BTreeMap::new() }
    }

    /// Takes what is wanted and releases the rest; returns what could not be had.
    pub(super) fn update(&mut self, wanted: &BTreeMap<Claim, ServicePortName>) -> Vec<FailedClaim> {
        self.held.retain(|claim, _| wanted.contains_key(claim));
        let mut failed = Vec::new();
        for (claim, owner) in wanted {
            if self.held.contains_key(claim) {
                continue;
            }
            match open(claim.protocol, SocketAddr::new(self.address(claim), claim.port)) {
                Ok(socket) => drop(self.held.insert(claim.clone(), socket)),
                Err(error) => {
                    failed.push(FailedClaim { claim: claim.clone(), owner: owner.clone(), error });
                }
            }
        }
        failed
    }

    fn address(&self, claim: &Claim) -> IpAddr {
        claim.address.unwrap_or(match self.family {
            IpFamily::V4 => Ipv4Addr::UNSPECIFIED.into(),
            IpFamily::V6 => Ipv6Addr::UNSPECIFIED.into(),
        })
    }
}
