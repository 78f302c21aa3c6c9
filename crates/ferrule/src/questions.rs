//! Questions about this node, and their answers: what is served, why, and whether the kernel has it.
//!
//! Pure but for [`diff`](diff::answer), which reads the kernel. The same code answers on the unix socket, on the metrics
//! address, and in commands that have no running proxy. Asking is the business of `http/inspect_handler.rs` and of
//! `app/tools.rs`. The names of fields are documented in `docs/inspecting.md` and stay.

mod answers;
pub mod counters;
pub mod diff;
pub mod explain;
pub mod history;
pub mod kernel;
pub mod packet;
pub mod plan;
pub mod query;
pub mod service;
pub mod services;
pub mod status;
mod target;

pub use answers::*;
pub use counters::CountersQuestion;
pub use packet::{ExplainQuestion, Origin};
pub use plan::PlanQuestion;
pub use services::{ServiceState, ServicesQuestion};
pub use target::Target;

/// Why a question has no answer: it is not one, or it is about something that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct QuestionError(pub String);

impl QuestionError {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

#[cfg(test)]
mod tests;
