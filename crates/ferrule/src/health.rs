//! The health of this proxy and of its Services, as pure state: events and their times go in, reports come out.
//!
//! HTTP is in [`crate::http`].

mod clock;
mod proxy;
mod services;

pub use clock::Moment;
pub use proxy::{Eligibility, HealthReport, ProxyHealth};
pub use services::ServiceHealth;
