//! Ports of the host that no other process may use while they are a Service's: NodePorts, and Service addresses that the node has.
//!
//! A claim is a socket that is never read. Rules redirect packets before they reach it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd};

use ferrule_model::{IpFamily, ServicePortName};

use super::handover::Turn;
use super::portals::{Socket, SocketError};
use super::socket_names::claim_name;
use super::sockets::{adopted as adopted_socket, open};
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
    pub(super) fn update(
        &mut self,
        wanted: &BTreeMap<Claim, ServicePortName>,
        turn: &mut Turn<'_>,
    ) -> Vec<FailedClaim> {
        // Another claim may need the port of one that goes.
        self.release_others(wanted, turn);
        let mut failed = Vec::new();
        for (claim, owner) in wanted {
            if self.held.contains_key(claim) {
                continue;
            }
            match self.take(claim, turn) {
                Ok(socket) => drop(self.held.insert(claim.clone(), socket)),
                Err(error) => {
                    failed.push(FailedClaim { claim: claim.clone(), owner: owner.clone(), error });
                }
            }
        }
        failed
    }

    /// Releases what is not wanted.
    pub(super) fn release_others(&mut self, wanted: &BTreeMap<Claim, ServicePortName>, turn: &mut Turn<'_>) {
        for claim in self.held.keys().filter(|claim| !wanted.contains_key(claim)) {
            turn.forget(&claim_name(self.family, claim));
        }
        self.held.retain(|claim, _| wanted.contains_key(claim));
    }

    fn take(&self, claim: &Claim, turn: &mut Turn<'_>) -> Result<Socket, SocketError> {
        let address = SocketAddr::new(self.address(claim), claim.port);
        let adopted = turn.adopt(&claim_name(self.family, claim));
        let adopted = adopted.and_then(|socket| adopted_socket(claim.protocol, socket));
        let adopted = adopted.filter(|socket| socket.local_addr().is_ok_and(|bound| bound == address));
        adopted.map_or_else(|| open(claim.protocol, address), Ok)
    }

    /// All sockets, for the next process.
    pub(super) fn sockets(&self) -> impl Iterator<Item = (&Claim, BorrowedFd<'_>)> {
        self.held.iter().map(|(claim, socket)| (claim, socket.as_fd()))
    }

    fn address(&self, claim: &Claim) -> IpAddr {
        claim.address.unwrap_or(match self.family {
            IpFamily::V4 => Ipv4Addr::UNSPECIFIED.into(),
            IpFamily::V6 => Ipv6Addr::UNSPECIFIED.into(),
        })
    }
}
