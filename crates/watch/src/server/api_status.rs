//! Kubernetes' `Status` object: how an API server reports an error, in a response or in the middle of a watch.

use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;

use super::{ApiError, advice, protobuf};

/// Most of an unexpected body that an error message quotes.
const MAX_QUOTED_BYTES: usize = 200;

/// The fields of a `Status` that make up an error message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ApiStatus {
    pub code: u16,
    pub reason: String,
    pub message: String,
}

impl ApiStatus {
    /// Reads the body of an error response. Proxies and load balancers send anything, so the HTTP status fills the gaps.
    pub(super) fn from_response(status: StatusCode, body: &[u8]) -> Self {
        let sent = match protobuf::strip_envelope(body) {
            Ok(object) => protobuf::api_status(object).ok(),
            Err(_) => serde_json::from_slice(body).ok(),
        };
        let sent: Self = sent.unwrap_or_default();
        let quoted = || String::from_utf8_lossy(&body[..body.len().min(MAX_QUOTED_BYTES)]).trim().to_string();
        let reason = || status.canonical_reason().unwrap_or_default().to_string();
        Self {
            code: status.as_u16(),
            reason: if sent.reason.is_empty() { reason() } else { sent.reason },
            message: if sent.message.is_empty() { quoted() } else { sent.message },
        }
    }

    pub(super) fn into_error(self, what: String, retry_after: Option<Duration>) -> ApiError {
        let advice = advice::on_status(self.code, &self.message).to_string();
        let message = self.message.lines().collect::<Vec<_>>().join(" ");
        ApiError::Rejected { what, status: self.code, reason: self.reason, message, advice, retry_after }
    }
}
