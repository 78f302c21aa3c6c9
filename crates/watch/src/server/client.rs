//! Requests beside the watches: creating and patching objects, Events above all.

use std::sync::Arc;
use std::sync::mpsc;

use http::Method;
use hyper::body::Bytes;
use tokio::runtime::Handle;

use super::ApiError;
use super::connection::{Ask, Connection};
use super::events::Encoding;

/// A handle for requests from any thread but the source's own, where they would wait for themselves.
#[derive(Clone, Debug)]
pub struct ApiClient {
    connection: Arc<Connection>,
    runtime: Handle,
}

impl ApiClient {
    pub(super) fn new(connection: Arc<Connection>, runtime: Handle) -> Self {
        Self { connection, runtime }
    }

    /// Creates an object in the collection at a path, as in `/apis/events.k8s.io/v1/namespaces/default/events`; waits for
    /// the answer and returns it.
    pub fn create(&self, path: &str, object: &serde_json::Value) -> Result<Vec<u8>, ApiError> {
        self.wait_for(Method::POST, path, ("application/json", object))
    }

    /// Changes the object at a path by a strategic merge patch; waits for the answer and returns it.
    pub fn patch(&self, path: &str, change: &serde_json::Value) -> Result<Vec<u8>, ApiError> {
        self.wait_for(Method::PATCH, path, ("application/strategic-merge-patch+json", change))
    }

    fn wait_for(
        &self,
        method: Method,
        path: &str,
        (media, value): (&'static str, &serde_json::Value),
    ) -> Result<Vec<u8>, ApiError> {
        let doing = if method == Method::POST { "creating an object" } else { "changing an object" };
        let ask = Ask {
            method,
            path: path.to_string(),
            content: Some((media, Bytes::from(value.to_string()))),
            doing: doing.into(),
            is_watch: false,
            accepts: Encoding::Json,
        };
        let ended = ApiError::Transport {
            what: self.connection.what(&ask),
            cause: "the source has ended".into(),
            advice: String::new(),
        };
        let (answer, answered) = mpsc::channel();
        let connection = self.connection.clone();
        self.runtime.spawn(async move {
            // Nobody waits any more if the caller is gone.
            let _ = answer.send(connection.fetch(&ask).await);
        });
        // If the runtime ends, the task is dropped, and its end of the channel with it.
        answered.recv().unwrap_or(Err(ended)).map(Vec::from)
    }
}
