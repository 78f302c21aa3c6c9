//! Requests beside the watches: creating and patching objects, mostly Events.

use std::sync::Arc;
use std::sync::mpsc;

use http::Method;
use hyper::body::Bytes;
use serde_json::Value;
use tokio::runtime::Handle;

use super::ApiError;
use super::connection::{ApiRequest, Connection, Content};
use super::events::Encoding;

/// A blocking client on the source's connection. Must not be used on the source's own thread, which would deadlock.
#[derive(Clone, Debug)]
pub struct ApiClient {
    connection: Arc<Connection>,
    runtime: Handle,
}

impl ApiClient {
    pub(super) fn new(connection: Arc<Connection>, runtime: Handle) -> Self {
        Self { connection, runtime }
    }

    /// Creates an object in the collection at `path`, such as `/apis/events.k8s.io/v1/namespaces/default/events`. Blocks
    /// until the response, and returns its body.
    pub fn create(&self, path: &str, object: &Value) -> Result<Vec<u8>, ApiError> {
        self.send(ApiRequest {
            method: Method::POST,
            path: path.to_string(),
            content: Some(Content::new("application/json", object)),
            operation: "creating an object".into(),
            is_watch: false,
            accepts: Encoding::Json,
        })
    }

    /// Applies a strategic merge patch to the object at `path`. Blocks until the response, and returns its body.
    pub fn patch(&self, path: &str, change: &Value) -> Result<Vec<u8>, ApiError> {
        self.send(ApiRequest {
            method: Method::PATCH,
            path: path.to_string(),
            content: Some(Content::new("application/strategic-merge-patch+json", change)),
            operation: "changing an object".into(),
            is_watch: false,
            accepts: Encoding::Json,
        })
    }

    fn send(&self, request: ApiRequest) -> Result<Vec<u8>, ApiError> {
        let source_ended = ApiError::Transport {
            what: self.connection.describe(&request),
            cause: "the source has ended".into(),
            advice: String::new(),
        };
        let (result_tx, result_rx) = mpsc::channel();
        let connection = self.connection.clone();
        self.runtime.spawn(async move {
            // Fails only if the caller is gone.
            let _ = result_tx.send(connection.fetch(&request).await);
        });
        // A runtime that ends drops the task and with it the sender.
        result_rx.recv().unwrap_or(Err(source_ended)).map(Vec::from)
    }
}

impl Content {
    fn new(media_type: &'static str, value: &Value) -> Self {
        Self { media_type, body: Bytes::from(value.to_string()) }
    }
}
