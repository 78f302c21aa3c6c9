//! Whether this proxy is well, and what load balancers are told about it: pure state, told what happened and when.
//!
//! Answering over HTTP is [`crate::http`]'s work.

mod clock;
mod proxy;
mod services;

pub use clock::Moment;
pub use proxy::{Eligibility, ProxyHealth, Report};
pub use services::{ServiceAnswer, ServiceHealth};
