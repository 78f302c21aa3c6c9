//! nf_tables: tables, sets, chains, rules and elements as plain data, and a client for one table.
//!
//! [`NftClient`] commits a [`Transaction`] and reads objects back. Encoding and decoding are pure.

mod batch;
mod client;
mod commit;
pub(crate) mod constants;
pub mod decode;
pub mod encode;
mod expressions;
mod listings;
mod objects;
mod others;
pub mod ruleset;
pub mod show;
mod subscription;
#[cfg(test)]
mod tests;
mod transaction;
pub(crate) mod user_data;
mod watch;

pub use batch::{Batch, Part};
pub use client::{NftClient, TABLE};
pub use commit::{CommitError, Committed, InjectedFault};
pub use decode::{CounterReading, SeenElement, SeenTable};
pub use expressions::*;
pub use listings::{Seen, SeenElements};
pub use objects::*;
pub use others::{Obstacle, Stops};
pub use subscription::{Pause, Subscription};
pub use transaction::{Operation, Transaction};
pub use watch::{NftChange, NftNotification, NftNotifications, NftWatch, notification};
