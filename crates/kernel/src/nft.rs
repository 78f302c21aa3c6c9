//! nf_tables: tables, sets, chains, rules and elements as plain data, and the table they are in.
//!
//! [`Transaction`] says what is to change, [`NftClient`] makes it happen and reads back. Encoding and decoding are pure.

mod batch;
mod client;
mod commit;
pub mod decode;
pub mod encode;
mod expressions;
mod listings;
mod numbers;
mod objects;
pub mod show;
#[cfg(test)]
mod tests;
mod transaction;
mod user_data;
mod watch;

pub use batch::{Batch, Part};
pub use client::{NftClient, TABLE};
pub use commit::{CommitError, Committed, OnPurpose};
pub use decode::{CounterReading, SeenElement, SeenTable};
pub use expressions::*;
pub use listings::{Seen, SeenElements};
pub use objects::*;
pub use transaction::{Operation, Transaction};
pub use watch::{Event, News, NftWatch, What, event};
