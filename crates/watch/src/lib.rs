//! Sources of cluster state: an API server or a directory of manifests, turned into changes of the model.
//!
//! The only crate that knows the Kubernetes API. [`api`] has its objects as they arrive, reduced to the fields a proxy
//! reads; [`convert`] turns them into [`ferrule_model::Change`]s. [`server`] watches an API server, [`mod@file`] a
//! directory. Nothing here decides about traffic: that is `ferrule-plan`.

pub mod api;
mod change_batch;
pub mod convert;
pub mod file;
mod mass_removal;
#[cfg(feature = "server")]
pub mod server;

pub use change_batch::ChangeBatch;
pub use mass_removal::MassRemoval;
