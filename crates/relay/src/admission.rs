//! Which clients a pool serves.

use std::net::IpAddr;

use ipnet::IpNet;

/// Which clients may use a [`Pool`](crate::Pool). Others are closed with a reset; their datagrams are dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// Every client.
    #[default]
    Everyone,
    /// Clients in one of these ranges. No range admits no client.
    Ranges(Vec<IpNet>),
}

impl Admission {
    /// Whether this client is served.
    pub fn admits(&self, client: IpAddr) -> bool {
        match self {
            Self::Everyone => true,
            Self::Ranges(ranges) => {
                let client = client.to_canonical();
                ranges.iter().any(|range| range.contains(&client))
            }
        }
    }
}
