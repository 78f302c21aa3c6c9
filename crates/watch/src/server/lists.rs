//! How all there is of a kind is best asked for.
//!
//! API servers since 1.34 have the newest state in memory, find out from their store that it is the newest, and write a list
//! out of it piece by piece. That takes them a half to a third of the work of a streamed list, which wraps each object for
//! itself. Older ones would have to read all of their store for the newest state.

use http::Method;
use serde::Deserialize;

use super::connection::{Ask, Connection};
use super::events::Encoding;

/// The first version of Kubernetes, of its first line, whose lists of the newest state are cheap.
const CHEAP_SINCE: u32 = 34;

/// How it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lists {
    /// As one list in the newest state.
    Newest,
    /// As the beginning of a watch, in the newest state, if the server can.
    Streamed,
    /// As one list in whatever state the server has in memory.
    Cached,
}

impl Lists {
    /// What is best for this server, by its own word. Who does not say what they are is asked for a stream, and may refuse; who
    /// refuses streams does not know what is the newest without reading all of its store.
    pub(super) async fn best_for(connection: &Connection) -> Self {
        let ask = Ask {
            method: Method::GET,
            path: "/version".into(),
            content: None,
            doing: "asking for the version".into(),
            is_watch: false,
            accepts: Encoding::Json,
        };
        match connection.fetch(&ask).await {
            _ if connection.has_refused_streams() => Self::Cached,
            Ok(answer) => Self::best_for_version(&answer),
            // If the connection is what is broken, the stream will tell.
            Err(_) => Self::Streamed,
        }
    }

    fn best_for_version(answer: &[u8]) -> Self {
        let Ok(Version { major, minor }) = serde_json::from_slice(answer) else { return Self::Streamed };
        // Some write "34+" for one with their own changes.
        let digits = minor.trim_end_matches(|end: char| !end.is_ascii_digit());
        let is_cheap = match (major.as_str(), digits.parse()) {
            ("1", Ok(minor)) => CHEAP_SINCE <= minor,
            _ => false,
        };
        if is_cheap { Self::Newest } else { Self::Streamed }
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
    fn an_api_server_is_asked_for_what_it_can_cheaply_do() {
        let rows = [
            (r#"{"major":"1","minor":"34","gitVersion":"v1.34.0"}"#, Lists::Newest),
            (r#"{"major":"1","minor":"37+","platform":"linux/amd64"}"#, Lists::Newest),
            (r#"{"major":"1","minor":"100"}"#, Lists::Newest),
            (r#"{"major":"1","minor":"33"}"#, Lists::Streamed),
            (r#"{"major":"1","minor":"33+"}"#, Lists::Streamed),
            (r#"{"major":"0","minor":"99"}"#, Lists::Streamed),
            (r#"{"major":"","minor":""}"#, Lists::Streamed),
            (r#"{"major":"1"}"#, Lists::Streamed),
            ("it works!", Lists::Streamed),
        ];
        for (answer, best) in rows {
            assert_eq!(Lists::best_for_version(answer.as_bytes()), best, "{answer}");
        }
    }
}
