//! Relays TCP connections and UDP datagrams from listening sockets to endpoints.
//!
//! Knows sockets, addresses and endpoints; neither Services nor rules. It neither binds sockets nor logs: the caller hands
//! listening sockets in and gets [`Note`]s out.
//!
//! ```text
//!   client ──► listening socket ──► worker thread ──► endpoint          a Portal is a listening socket that is served,
//!                  Portal              Relay            Pool            a Pool the endpoints behind one or more of them
//! ```
//!
//! [`Relay`] starts the worker threads and serves sockets. [`Pool`] chooses endpoints: shuffled round robin, client affinity,
//! passive health. [`ports`] allocates the ports that sockets are bound to.
//!
//! Inside, each worker is one thread with one epoll instance (`worker`), which owns the connections it accepted (`tcp`) and the
//! UDP sockets assigned to it (`udp`). Workers share pools and counters, no connections.

mod admission;
mod notes;
mod options;
mod pool;
mod portal;
pub mod ports;
mod random;
mod relay;
mod stats;
mod tcp;
mod udp;
mod worker;

pub use admission::Admission;
pub use notes::{Limited, Note, NoteSink};
pub use options::{RelayError, RelayOptions};
pub use pool::{Attempt, PickError, Pool, PoolLimits, PoolStats};
pub use portal::Portal;
pub use relay::Relay;
pub use stats::{PortalStats, RelayStats};
