//! The configuration file: from bytes to one effective configuration, and back.
//!
//! In reading order: [`tree`] and [`decode`] read a file by the table in [`fields`]; [`defaults`] fills gaps;
//! [`complete()`] joins file and flags into an [`Effective`] configuration; [`encode`] writes it down again; [`reload`]
//! judges a changed file. Turning it into typed settings, and refusing bad values, is [`crate::settings`]' work.

pub mod complete;
pub mod configz;
pub mod decode;
pub mod defaults;
pub mod docs;
pub mod effective;
pub mod encode;
pub mod fields;
pub mod mode;
pub mod reload;
pub mod slot;
pub mod suggest;
pub mod tree;
pub mod v1alpha1;

pub use complete::{CompleteError, Completed, complete, complete_with_file};
pub use effective::Effective;
pub use slot::Value;
pub use v1alpha1::KubeProxyConfiguration;
