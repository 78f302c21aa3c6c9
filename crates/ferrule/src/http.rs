//! What is served over HTTP: health on 10256, metrics and looks inside on 10249, and load balancers' health checks.
//!
//! Pages are plain functions from a [`Question`] to an [`Answer`]; [`server`] does the talking, [`sockets`] the binding.

mod answer;
pub mod configz;
mod debug;
mod flagz;
mod gzip;
mod health_pages;
pub mod hosting;
mod metrics_pages;
mod pprof;
pub mod server;
mod service_checks;
pub mod sockets;
mod statusz;
mod zpages;

pub use answer::{Answer, Method, Pages, Question, SlowPage};
pub use health_pages::HealthPages;
pub use metrics_pages::{Facts, MetricsPages};
pub use service_checks::{CheckPages, ListenAddresses, ServiceChecks};
