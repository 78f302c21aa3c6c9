//! Which kind of list request is cheapest for an API server.
//!
//! API servers since 1.34 serve a consistent list from their watch cache and stream the response. That costs them a
//! half to a third of a streaming list, which wraps every object in an event. Older servers would have to read etcd for
//! a consistent list.

use http::Method;
use serde::Deserialize;

use super::connection::{ApiRequest, Connection};
use super::events::Encoding;

/// The first minor version of Kubernetes 1.x with cheap consistent lists.
const CHEAP_LISTS_SINCE: u32 = 34;

/// How the initial state of a kind is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListStrategy {
    /// A list of the newest state.
    Consistent,
    /// The initial events of a watch (`sendInitialEvents`), in the newest state. Older servers reject it.
    Streamed,
    /// A list of whatever state the server has cached.
    Cached,
}

impl ListStrategy {
    /// Decides by the server's version. If that is unknown, tries a streaming list. If the server has rejected one, uses
    /// a cached list: a consistent read would hit etcd.
    pub(super) async fn negotiate(connection: &Connection) -> Self {
        let request = ApiRequest {
            method: Method::GET,
            path: "/version".into(),
            content: None,
            operation: "asking for the version".into(),
            is_watch: false,
            accepts: Encoding::Json,
        };
        match connection.fetch(&request).await {
            _ if connection.has_rejected_streaming() => Self::Cached,
            Ok(response) => Self::for_version(&response),
            // If the connection is broken, the streaming list fails too, and that failure is reported.
            Err(_) => Self::Streamed,
        }
    }

    fn for_version(response: &[u8]) -> Self {
        let Ok(Version { major, minor }) = serde_json::from_slice(response) else { return Self::Streamed };
        // Some distributions write "34+".
        let digits = minor.trim_end_matches(|end: char| !end.is_ascii_digit());
        let is_cheap = match (major.as_str(), digits.parse()) {
            ("1", Ok(minor)) => CHEAP_LISTS_SINCE <= minor,
            _ => false,
        };
        if is_cheap { Self::Consistent } else { Self::Streamed }
    }
}

#[derive(Deserialize)]
struct Version {
    major: String,
    minor: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_decides_which_list_is_cheap() {
        let rows = [
            (r#"{"major":"1","minor":"34","gitVersion":"v1.34.0"}"#, ListStrategy::Consistent),
            (r#"{"major":"1","minor":"37+","platform":"linux/amd64"}"#, ListStrategy::Consistent),
            (r#"{"major":"1","minor":"100"}"#, ListStrategy::Consistent),
            (r#"{"major":"1","minor":"33"}"#, ListStrategy::Streamed),
            (r#"{"major":"1","minor":"33+"}"#, ListStrategy::Streamed),
            (r#"{"major":"0","minor":"99"}"#, ListStrategy::Streamed),
            (r#"{"major":"","minor":""}"#, ListStrategy::Streamed),
            (r#"{"major":"1"}"#, ListStrategy::Streamed),
            ("it works!", ListStrategy::Streamed),
        ];
        for (response, expected) in rows {
            assert_eq!(ListStrategy::for_version(response.as_bytes()), expected, "{response}");
        }
    }
}
