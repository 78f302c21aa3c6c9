//! Why a backend could not do something, without naming a mode in its type.

use std::borrow::Cow;
use std::error::Error;
use std::time::Duration;

use ferrule_model::IpFamily;

use crate::Rejected;
use crate::metrics::Sample;

/// A failure of a backend. Its text says what was being done; the cause is its source.
#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
pub struct BackendError {
    doing: Cow<'static, str>,
    family: Option<IpFamily>,
    retry_in: Option<Duration>,
    /// What is known beside the cause.
    pub findings: Box<Findings>,
    #[source]
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// What a failed operation found out on the way.
#[derive(Debug, Default)]
pub struct Findings {
    /// What the failure adds to the metrics of its mode.
    pub samples: Vec<Sample>,
    /// What was measured, and is recorded however often it fails.
    pub measured: Vec<Sample>,
    /// Rules that were rejected before it failed.
    pub rejected: Vec<Rejected>,
}

impl BackendError {
    /// A failure without a cause of its own.
    pub fn new(doing: impl Into<Cow<'static, str>>) -> Self {
        Self { doing: doing.into(), family: None, retry_in: None, findings: Box::default(), source: None }
    }

    /// Adds the cause.
    #[must_use]
    pub fn caused_by(self, source: impl Error + Send + Sync + 'static) -> Self {
        Self { source: Some(Box::new(source)), ..self }
    }

    /// Adds the family it is about.
    #[must_use]
    pub fn in_family(self, family: IpFamily) -> Self {
        Self { family: Some(family), ..self }
    }

    /// Says that another program is in the way and will be gone by itself: nothing was changed, and what was to be written
    /// is kept for the next sync.
    #[must_use]
    pub fn until_free(self, retry_in: Duration) -> Self {
        Self { retry_in: Some(retry_in), ..self }
    }

    /// Adds what is to be counted.
    #[must_use]
    pub fn counted(mut self, samples: Vec<Sample>) -> Self {
        self.findings.samples = samples;
        self
    }

    /// The family it is about, if it is about one.
    pub fn family(&self) -> Option<IpFamily> {
        self.family
    }

    /// When to try again, if another program is in the way: see [`Self::until_free`].
    pub fn retry_in(&self) -> Option<Duration> {
        self.retry_in
    }
}
