//! Connections for each Service port and endpoint, counted in the same words in every mode.
//!
//! ```text
//!   loop: plan, delta ─► Selection ─► ConnectionCounters::follow      what is counted, before the mode's own sync
//!   scrape, question  ─► SharedReading ─► ConnectionCounters::read    at most once a second, on the thread that asks
//! ```
//!
//! [`Selection`] says what is counted: which Services ask for it, and no more Service ports than the limit. How connections are
//! counted is a matter of the mode: [`TableCounters`] where packets are redirected by conntrack (nftables and iptables mode), the
//! virtual servers' own statistics in ipvs mode, the relay's in userspace mode. Rules of a mode are the same with and without
//! counters.

mod layout;
mod reader;
mod selection;
mod shared;
mod table;
mod tag;
mod totals;

use std::net::SocketAddr;

use ferrule_model::ServicePortName;

pub use selection::{CountedServices, PlanChange, Selected, Selection, SelectionChange};
pub use shared::{CounterReading, EndpointCount, ServiceCount, SharedReading};
pub use table::TableCounters;
pub(crate) use totals::Totals;

use crate::{BackendError, Note};

/// Counts connections in one mode.
pub trait ConnectionCounters: Send + Sync {
    /// Takes over what is counted now. Called on the loop's thread, before the mode writes the same change: the first connection
    /// to something new counts.
    fn follow(&self, change: &SelectionChange) -> Vec<Note>;

    /// What was counted so far. Called on any thread; may take as long as reading the kernel does.
    fn read(&self, selected: &Selected) -> Result<Vec<Count>, BackendError>;
}

/// What was counted for a Service port, or for one of its endpoints. Several are added up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// The Service port.
    pub owner: ServicePortName,
    /// The endpoint; `None` for the Service port as a whole.
    pub endpoint: Option<SocketAddr>,
    /// Connections; flows, where there are none.
    pub connections: u64,
    /// Packets and bytes in both directions, if the mode has them for nothing.
    pub traffic: Option<Traffic>,
}

/// Packets and bytes, in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}
