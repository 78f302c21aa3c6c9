//! Shuffled round robin.

use std::collections::HashSet;
use std::net::SocketAddr;

use crate::random::Random;

/// Endpoints in the order they are used, and whose turn it is.
#[derive(Debug)]
pub(super) struct Rotation {
    /// May have an endpoint several times, which then gets as many turns.
    endpoints: Vec<SocketAddr>,
    next: usize,
    random: Random,
}

impl Default for Rotation {
    fn default() -> Self {
        Self::shuffled_by(Random::new())
    }
}

impl Rotation {
    pub(super) fn shuffled_by(random: Random) -> Self {
        Self { endpoints: Vec::new(), next: 0, random }
    }

    /// Replaces the endpoints and returns those that vanished, or `None` if they are the same in some order.
    pub(super) fn replace(&mut self, mut endpoints: Vec<SocketAddr>) -> Option<Vec<SocketAddr>> {
        if sorted(&self.endpoints) == sorted(&endpoints) {
            return None;
        }
        self.random.shuffle(&mut endpoints);
        let kept: HashSet<SocketAddr> = endpoints.iter().copied().collect();
        let before: HashSet<SocketAddr> = self.endpoints.iter().copied().collect();
        self.endpoints = endpoints;
        self.next = 0;
        Some(before.difference(&kept).copied().collect())
    }

    /// The first endpoint from the turn on that has the lowest rank. Zero is the lowest rank.
    pub(super) fn next_by(&mut self, rank: impl Fn(SocketAddr) -> u8) -> Option<SocketAddr> {
        let count = self.endpoints.len();
        let mut best: Option<(usize, u8)> = None;
        for offset in 0..count {
            let at = (self.next + offset) % count;
            let rank = rank(self.endpoints[at]);
            if best.is_none_or(|(_, lowest)| rank < lowest) {
                best = Some((at, rank));
            }
            if rank == 0 {
                break;
            }
        }
        let (at, _) = best?;
        self.next = (at + 1) % count;
        Some(self.endpoints[at])
    }

    pub(super) fn contains(&self, endpoint: SocketAddr) -> bool {
        self.endpoints.contains(&endpoint)
    }

    pub(super) fn len(&self) -> usize {
        self.endpoints.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.endpoints.is_empty()
    }
}

fn sorted(endpoints: &[SocketAddr]) -> Vec<SocketAddr> {
    let mut endpoints = endpoints.to_vec();
    endpoints.sort_unstable();
    endpoints
}
