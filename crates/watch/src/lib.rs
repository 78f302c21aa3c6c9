//! What the API server says, turned into changes of the model.
//!
//! The only crate that knows how Kubernetes writes its objects: [`api`] has them as they come over the wire, slimmed to
//! the fields a proxy reads, and [`convert`] distils them. [`server`] has them from an API server, [`mod@file`] from a
//! folder, where there is none. It decides nothing about traffic: see `ferrule-plan`.

pub mod api;
pub mod convert;
pub mod file;
mod mass_removal;
#[cfg(feature = "server")]
pub mod server;

pub use mass_removal::MassRemoval;
