//! The language of stories: one line for a Service, an endpoint, the node or a setting of the proxy.
//!
//! Turns lines into API objects and settings; `stories/README.md` describes the language for its users.

pub(super) mod endpoint;
pub(super) mod node;
pub(super) mod proxy;
pub(super) mod service;
pub(super) mod tokens;
