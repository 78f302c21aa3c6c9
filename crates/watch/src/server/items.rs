//! Takes the objects out of a list while it comes in, so that it is never held as a whole.

mod json;
mod protobuf;

use super::events::{Encoding, Raw, ReadError};

/// Longer than any object etcd takes.
const LONGEST_ITEM: usize = 16 << 20;

/// A list that is coming in.
#[derive(Debug)]
pub(super) enum Items {
    Json(json::Items),
    Protobuf(protobuf::Items),
}

impl Items {
    pub(super) fn written_in(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Json => Self::Json(json::Items::default()),
            Encoding::Protobuf => Self::Protobuf(protobuf::Items::default()),
        }
    }

    /// Takes more of the list and hands out every item that is complete.
    pub(super) fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(Raw<'_>)) -> Result<(), ReadError> {
        match self {
            Self::Json(items) => items.feed(bytes, |item| each(Raw::json(item))),
            Self::Protobuf(items) => items.feed(bytes, |item| each(Raw::protobuf(item))),
        }
    }

    /// The version of the list, after all of it came. Something else that is taken for a list without items would cost all rules.
    pub(super) fn finish(self) -> Result<String, ReadError> {
        let About { kind, version } = match self {
            Self::Json(items) => items.finish()?,
            Self::Protobuf(items) => items.finish()?,
        };
        match (kind.ends_with("List"), version.is_empty()) {
            (true, false) => Ok(version),
            (true, true) => Err(ReadError::NoVersion),
            (false, _) => Err(ReadError::NotAList),
        }
    }
}

/// What a list says of itself.
#[derive(Debug, Default, PartialEq, Eq)]
struct About {
    kind: String,
    version: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Result<String, ReadError> {
        let mut items = Items::written_in(Encoding::Json);
        items.feed(text.as_bytes(), |_| {}).unwrap();
        items.finish()
    }

    #[test]
    fn only_a_list_with_a_version_is_one() {
        let list = r#"{"kind":"ServiceList","metadata":{"resourceVersion":"7"},"items":[]}"#;
        assert_eq!(json(list).unwrap(), "7");
        let unversioned = r#"{"kind":"ServiceList","metadata":{},"items":[]}"#;
        assert!(matches!(json(unversioned), Err(ReadError::NoVersion)));
        for other in [
            r#"{"metadata":{"resourceVersion":"7"}}"#,
            r#"{"kind":"Status","metadata":{"resourceVersion":"7"}}"#,
        ] {
            assert!(matches!(json(other), Err(ReadError::NotAList)), "{other}");
        }
        assert!(matches!(json(&list[..30]), Err(ReadError::EndsEarly)));
    }
}
