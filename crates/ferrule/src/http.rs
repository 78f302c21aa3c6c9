//! What is served over HTTP: health on 10256, metrics and looks inside on 10249, and load balancers' health checks.
//!
//! Pages are plain functions from a [`Question`] to an [`Answer`]; [`server`] does the talking, [`sockets`] the binding, and
//! [`connections`] decides who may be connected. Health has a thread of its own ([`hosting`]), and the proxy's loop waits for
//! none of this.

mod answer;
pub mod configz;
pub mod connections;
mod debug;
mod flagz;
mod guarded_stream;
mod gzip;
mod health_pages;
pub mod hosting;
mod metrics_pages;
mod pprof;
mod scrape;
pub mod server;
mod service_checks;
pub mod sockets;
mod statusz;
mod zpages;

pub use answer::{Answer, Method, Pages, Question, SlowPage};
pub use health_pages::HealthPages;
pub use metrics_pages::{Facts, MetricsPages};
pub use service_checks::{CheckPages, ListenAddresses, ServiceChecks};
