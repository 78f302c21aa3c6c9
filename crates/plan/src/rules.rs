//! A frontend as an ordered list: what people read and what the reference interpreter follows.
//!
//! Derived from a frontend by [`Frontend::rules`](crate::Frontend::rules). Backends do not read it: see
//! [`Shape`](crate::Shape).

use std::sync::Arc;

use ipnet::IpNet;

use crate::PoolScope;

/// A list in which the first match wins, and which always ends in an answer for anyone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    exceptions: Box<[(TrafficSource, Verdict)]>,
    otherwise: Verdict,
}

/// Whose packets a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrafficSource {
    /// Pods of this node, as far as they can be recognized.
    LocalPods,
    /// This host itself: the source is one of its addresses.
    ThisHost,
    /// Sources in none of these blocks.
    OutsideRanges(Arc<[IpNet]>),
    /// All sources.
    Anyone,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes to one of the owner's endpoints. One that gets its own packet back has it masqueraded in any case.
    Forward {
        /// Which of the owner's pools.
        pool: PoolScope,
        /// Whether the endpoint sees an address of this node as the source.
        masquerade: bool,
    },
    /// It is discarded without an answer.
    Drop,
    /// It is answered with an ICMP error or a TCP reset.
    Reject,
    /// It passes unchanged: no rule of ours touches it.
    Pass,
}

impl Rules {
    pub(crate) fn anyone(verdict: Verdict) -> Self {
        Self { exceptions: Box::default(), otherwise: verdict }
    }

    /// Exceptions in order, then the rest.
    pub(crate) fn new(exceptions: Vec<(TrafficSource, Verdict)>, otherwise: Verdict) -> Self {
        Self { exceptions: exceptions.into_boxed_slice(), otherwise }
    }

    pub(crate) fn preceded_by(self, source: TrafficSource, verdict: Verdict) -> Self {
        let exceptions = std::iter::once((source, verdict)).chain(self.exceptions).collect();
        Self { exceptions, otherwise: self.otherwise }
    }

    pub(crate) fn map(mut self, verdict: impl Fn(Verdict) -> Verdict) -> Self {
        self.exceptions.iter_mut().for_each(|(_, then)| *then = verdict(*then));
        self.otherwise = verdict(self.otherwise);
        self
    }

    /// The rules in the order in which they are tried; the last is for [`TrafficSource::Anyone`].
    pub fn iter(&self) -> impl Iterator<Item = (&TrafficSource, Verdict)> {
        let exceptions = self.exceptions.iter().map(|(source, verdict)| (source, *verdict));
        exceptions.chain(std::iter::once((&TrafficSource::Anyone, self.otherwise)))
    }

    /// What becomes of those no exception is made for.
    pub fn otherwise(&self) -> Verdict {
        self.otherwise
    }
}
