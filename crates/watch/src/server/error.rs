//! Errors between us and an API server, with advice for the operator.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::SecretUrl;
use super::advice::{self, Explained};

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The API server was not reached, or the connection broke. Retried.
    #[error("{what}: {cause}{advice}")]
    Transport {
        /// The operation and the URL.
        what: String,
        /// The innermost error.
        cause: String,
        /// Advice for the operator, or empty. Starts with `; `.
        advice: String,
    },
    /// The API server answered with an error.
    #[error("{what}: the API server answered {status} {reason}: {message}{advice}")]
    Rejected {
        /// The operation and the URL.
        what: String,
        /// The HTTP status.
        status: u16,
        /// Kubernetes' word for it, as in `Forbidden`.
        reason: String,
        /// The API server's message.
        message: String,
        /// Advice for the operator, or empty. Starts with `; `.
        advice: String,
        /// The delay the API server asks for before a retry.
        retry_after: Option<Duration>,
    },
    /// The response cannot be decoded.
    #[error("{what}: {problem}; is this a Kubernetes API server?")]
    Unreadable {
        /// The operation and the URL.
        what: String,
        /// What is wrong with the response.
        problem: String,
    },
}

/// The configuration cannot be used, so a retry would not help.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The kubeconfig cannot be used.
    #[error("reading the kubeconfig {}: {problem}", path.display())]
    Kubeconfig {
        /// The kubeconfig.
        path: PathBuf,
        /// What is wrong, with advice where there is some.
        problem: String,
    },
    /// There is no service account, so this is not a pod.
    #[error(
        "using the pod's service account: {problem}; outside a cluster, name a kubeconfig with --kubeconfig or \
         clientConnection.kubeconfig"
    )]
    InCluster {
        /// What is missing.
        problem: String,
    },
    /// The API server's address is not a URL.
    #[error("the API server's address \"{}\" is not a URL: {problem}", url.shown().escape_debug())]
    Address {
        /// The address, without secrets.
        url: SecretUrl,
        /// What is wrong with it.
        problem: String,
    },
    /// Certificates, keys, plugins or proxies that cannot be used.
    #[error("preparing the connection to {url}: {problem}")]
    Connection {
        /// The API server.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The operating system refused a thread or an event loop.
    #[error("starting the thread that talks to the API server")]
    Runtime(#[source] io::Error),
}

/// Distinguishes outages. Each is logged once, even if its message varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FailureClass {
    Transport,
    Rejected(u16),
    Unreadable,
}

impl ApiError {
    /// From an error of the HTTP client.
    pub(super) fn transport(what: String, error: &(dyn Error + 'static)) -> Self {
        let Explained { cause, advice } = advice::on_transport(error);
        Self::Transport { what, cause, advice }
    }

    /// Whether a retry may succeed without any intervention.
    pub fn is_transport(&self) -> bool {
        matches!(self, Self::Transport { .. })
    }

    /// The same failure, reported for another request that waited for this one.
    pub(super) fn for_request(mut self, request: String) -> Self {
        match &mut self {
            Self::Transport { what, .. } | Self::Rejected { what, .. } | Self::Unreadable { what, .. } => {
                *what = request;
            }
        }
        self
    }

    pub(super) fn class(&self) -> FailureClass {
        match self {
            Self::Transport { .. } => FailureClass::Transport,
            Self::Rejected { status, .. } => FailureClass::Rejected(*status),
            Self::Unreadable { .. } => FailureClass::Unreadable,
        }
    }

    /// The version to resume from is too old.
    pub(super) fn is_expired(&self) -> bool {
        matches!(self, Self::Rejected { status: 410, .. })
    }

    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Rejected { status: 404, .. })
    }

    pub(super) fn is_unreadable(&self) -> bool {
        matches!(self, Self::Unreadable { .. })
    }

    /// The server does not support streaming lists.
    pub(super) fn rejects_streaming(&self) -> bool {
        matches!(self, Self::Rejected { status: 400 | 422, .. })
    }

    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Rejected { retry_after, .. } => *retry_after,
            Self::Transport { .. } | Self::Unreadable { .. } => None,
        }
    }
}

/// A parser's message without the values it quotes from the file: they may be misplaced secrets.
pub(super) fn without_values(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    let mut quote = None;
    for character in message.chars() {
        match quote {
            Some(mark) if mark == character => {
                text.extend(['…', mark]);
                quote = None;
            }
            Some(_) => {}
            None => {
                text.push(character);
                quote = Some(character).filter(|mark| ['"', '`', '\''].contains(mark));
            }
        }
    }
    text
}

/// An error and its causes in one line, without repetition.
pub(super) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    for cause in advice::causes(error) {
        // Further lines of a parser's message show the location as a drawing.
        let cause = advice::without_secrets(cause).lines().next().unwrap_or_default().trim().to_string();
        if !text.ends_with(&cause) {
            text = if text.is_empty() { cause } else { format!("{text}: {cause}") };
        }
    }
    text
}
