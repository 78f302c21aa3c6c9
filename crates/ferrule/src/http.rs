//! The HTTP servers: health on 10256, metrics and diagnostics on 10249, and load balancers' health checks.
//!
//! A [`Handler`] maps a [`Request`] to a [`Response`]; [`server`] speaks HTTP, [`sockets`] binds ports, and [`connections`] limits
//! and evicts connections. Health has a thread of its own ([`runtime`]), and the proxy's loop waits for none of this.

pub mod connections;
mod debug;
mod event_stream;
mod flagz;
mod guarded_stream;
mod gzip;
mod health_handler;
mod inspect_handler;
mod inspect_socket;
mod message;
mod metrics_handler;
mod pprof;
pub mod runtime;
mod scrape;
pub mod server;
mod service_checks;
pub mod sockets;
mod status_page;
mod statusz;
mod zpages;

pub use health_handler::HealthHandler;
pub use inspect_handler::InspectHandler;
pub use inspect_socket::InspectSocket;
pub use message::{BlockingResponse, EventStream, Handler, MakeMessage, Method, Request, Response};
pub use metrics_handler::{MetricsHandler, PageOptions};
pub use service_checks::{ListenAddresses, ServiceChecks};
