//! Short names for Service ports, as the comments of counters carry them over a restart.

use std::fmt;
use std::net::SocketAddr;

use ferrule_kernel::nft::KeyBytes;
use ferrule_model::ServicePortName;

use crate::StateHash;
use crate::state_hash::ObjectHash;

/// With an endpoint behind it, a comment is as long as `nft` can read.
const MAX_LENGTH: usize = 79;
/// What a long name begins with, before its hash.
const PREFIX_LENGTH: usize = MAX_LENGTH - 17;

/// A Service port, as `ns/name:port/tcp`. A name that is too long for a comment ends in a hash.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Tag(String);

impl Tag {
    pub(super) fn of(owner: &ServicePortName) -> Self {
        let text = format!("{owner}/{}", owner.protocol);
        if text.len() <= MAX_LENGTH {
            return Self(text);
        }
        let prefix = &text[..text.floor_char_boundary(PREFIX_LENGTH)];
        Self(format!("{prefix}#{:016x}", hash(&text)))
    }

    /// The tag that a comment begins with, and the endpoint behind it.
    pub(super) fn from_comment(comment: &str) -> (Self, Option<SocketAddr>) {
        match comment.split_once(' ') {
            Some((tag, endpoint)) => (Self(tag.to_owned()), endpoint.parse().ok()),
            None => (Self(comment.to_owned()), None),
        }
    }

    pub(super) fn comment(&self, endpoint: Option<SocketAddr>) -> String {
        endpoint.map_or_else(|| self.0.clone(), |endpoint| format!("{} {endpoint}", self.0))
    }

    /// The key of what is carried for it: sixteen bytes that `nft` can print.
    pub(super) fn key(&self, endpoint: Option<SocketAddr>) -> KeyBytes {
        let comment = self.comment(endpoint);
        let mut key = KeyBytes::from_slice(&hash(&comment).to_be_bytes());
        key.extend_from_slice(&hash(&format!("{comment} ")).to_be_bytes());
        key
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn hash(text: &str) -> u64 {
    let mut hash = StateHash::default();
    hash.add(ObjectHash::of_text(text));
    hash.as_number()
}

#[cfg(test)]
mod tests {
    use ferrule_model::{PortName, Protocol, ServiceName};

    use super::*;

    fn owner(name: &str, port: &str) -> ServicePortName {
        let service = ServiceName::of("shop", name);
        ServicePortName { service, port: PortName::new(port), protocol: Protocol::Tcp }
    }

    #[test]
    fn a_comment_is_read_back() {
        let long = "a".repeat(63);
        for tag in [Tag::of(&owner("web", "")), Tag::of(&owner(&long, &"b".repeat(15)))] {
            for endpoint in
                [None, Some("10.0.0.1:80".parse().unwrap()), Some("[fd00::1]:80".parse().unwrap())]
            {
                let comment = tag.comment(endpoint);
                assert!(comment.len() <= 127, "{comment}");
                assert_eq!(Tag::from_comment(&comment), (tag.clone(), endpoint));
            }
        }
    }

    #[test]
    fn long_names_that_begin_alike_differ() {
        let long = "a".repeat(63);
        let tags = ["b".repeat(15), "c".repeat(15)].map(|port| Tag::of(&owner(&long, &port)));
        assert_ne!(tags[0], tags[1]);
        assert_ne!(tags[0].key(None), tags[1].key(None));
    }
}
