//! What goes wrong between us and an API server, said so that somebody can act on it.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::{SecretUrl, advice};

/// A request that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The API server was not reached, or the connection broke. Worth another try.
    #[error("{what}: {cause}{advice}")]
    Transport {
        /// The operation and the URL.
        what: String,
        /// What happened.
        cause: String,
        /// What to do about it, if that is known.
        advice: String,
    },
    /// The API server answered, and said no.
    #[error("{what}: the API server answered {status} {reason}: {message}{advice}")]
    Rejected {
        /// The operation and the URL.
        what: String,
        /// The HTTP status.
        status: u16,
        /// Kubernetes' word for it, as in `Forbidden`.
        reason: String,
        /// The API server's own words.
        message: String,
        /// What to do about it, if that is known.
        advice: String,
        /// When the API server wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// The API server answered something that cannot be read.
    #[error("{what}: {problem}; is this a Kubernetes API server?")]
    Unreadable {
        /// The operation and the URL.
        what: String,
        /// What is wrong with the answer.
        problem: String,
    },
}

/// There is nothing to try: the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The kubeconfig cannot be used.
    #[error("reading the kubeconfig {}: {problem}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do about it.
        problem: String,
    },
    /// Not in a pod.
    #[error(
        "using the pod's service account: {problem}; outside a cluster, name a kubeconfig with --kubeconfig or \
         clientConnection.kubeconfig"
    )]
    InCluster {
        /// What is lacking.
        problem: String,
    },
    /// An address that is none.
    #[error("the API server's address \"{}\" is not a URL: {problem}", url.shown().escape_debug())]
    Address {
        /// The address.
        url: SecretUrl,
        /// What is wrong.
        problem: String,
    },
    /// Certificates, keys, plugins or proxies that cannot be used.
    #[error("preparing the connection to {url}: {problem}")]
    Connection {
        /// The API server.
        url: String,
        /// What is wrong.
        problem: String,
    },
    /// No thread or event loop to be had from the operating system.
    #[error("starting the thread that talks to the API server")]
    Runtime(#[source] io::Error),
}

/// By what outages are told apart: one is told once, however its words change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Transport,
    Rejected(u16),
    Unreadable,
}

impl ApiError {
    /// From whatever the HTTP client says.
    pub(super) fn transport(what: String, error: &(dyn Error + 'static)) -> Self {
        let (cause, advice) = advice::on_transport(error);
        Self::Transport { what, cause, advice }
    }

    /// Whether another try may help without anybody doing anything.
    pub fn is_transport(&self) -> bool {
        matches!(self, Self::Transport { .. })
    }

    /// The same failure, met by somebody else.
    pub(super) fn elsewhere(mut self, somewhere: String) -> Self {
        match &mut self {
            Self::Transport { what, .. } | Self::Rejected { what, .. } | Self::Unreadable { what, .. } => {
                *what = somewhere;
            }
        }
        self
    }

    pub(super) fn class(&self) -> Class {
        match self {
            Self::Transport { .. } => Class::Transport,
            Self::Rejected { status, .. } => Class::Rejected(*status),
            Self::Unreadable { .. } => Class::Unreadable,
        }
    }

    /// The state to go on from is no longer known there.
    pub(super) fn is_expired(&self) -> bool {
        matches!(self, Self::Rejected { status: 410, .. })
    }

    /// An answer makes no sense.
    pub(super) fn is_unreadable(&self) -> bool {
        matches!(self, Self::Unreadable { .. })
    }

    /// A streaming list was refused as such; an ordinary one is not.
    pub(super) fn refuses_streaming(&self) -> bool {
        matches!(self, Self::Rejected { status: 400 | 422, .. })
    }

    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Rejected { retry_after, .. } => *retry_after,
            Self::Transport { .. } | Self::Unreadable { .. } => None,
        }
    }
}

/// A parser's message without what it quotes of the file, which may be a secret in the wrong place.
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

/// A message with its causes, in one line, each said once.
pub(super) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    for cause in advice::causes(error) {
        // A parser's later lines draw the place it means.
        let cause = advice::without_secrets(cause).lines().next().unwrap_or_default().trim().to_string();
        if !text.ends_with(&cause) {
            text = if text.is_empty() { cause } else { format!("{text}: {cause}") };
        }
    }
    text
}
