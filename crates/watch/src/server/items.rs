//! Takes the objects out of a list while it comes in, so that it is never held as a whole.

mod json;
mod protobuf;

use super::events::{Encoding, Raw, ReadError};
use super::type_name::{TypeMeta, TypeName};

/// Longer than any object etcd takes.
const LONGEST_ITEM: usize = 16 << 20;

/// A list that is coming in.
#[derive(Debug)]
pub(super) struct Items {
    parts: Parts,
    wanted: TypeName,
    is_of_wanted_type: bool,
}

#[derive(Debug)]
enum Parts {
    Json(json::Items),
    Protobuf(protobuf::Items),
}

impl Items {
    /// A list of such objects.
    pub(super) fn new(encoding: Encoding, wanted: TypeName) -> Self {
        let parts = match encoding {
            Encoding::Json => Parts::Json(json::Items::default()),
            Encoding::Protobuf => Parts::Protobuf(protobuf::Items::default()),
        };
        Self { parts, wanted, is_of_wanted_type: false }
    }

    /// Takes more of the list and hands out every item that is complete.
    pub(super) fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(Raw<'_>)) -> Result<(), ReadError> {
        match &mut self.parts {
            Parts::Json(items) => items.feed(bytes, |item| each(Raw::json(item)))?,
            Parts::Protobuf(items) => items.feed(bytes, |item| each(Raw::protobuf(item)))?,
        }
        if !self.is_of_wanted_type
            && let Some(found) = self.type_meta()
        {
            self.wanted.check_list(&found)?;
            self.is_of_wanted_type = true;
        }
        Ok(())
    }

    /// Whether the list has said that it is what was asked for: before that nothing of it may be told.
    pub(super) fn is_of_wanted_type(&self) -> bool {
        self.is_of_wanted_type
    }

    /// The version of the list, after all of it came.
    pub(super) fn finish(self) -> Result<String, ReadError> {
        let About { api_version, kind, version } = match self.parts {
            Parts::Json(items) => items.finish()?,
            Parts::Protobuf(items) => items.finish()?,
        };
        self.wanted.check_list(&TypeMeta { api_version: api_version.into(), kind: kind.into() })?;
        if version.is_empty() { Err(ReadError::NoVersion) } else { Ok(version) }
    }

    /// What the list has said of its type so far.
    fn type_meta(&self) -> Option<TypeMeta<'_>> {
        match &self.parts {
            Parts::Json(items) => items.type_meta(),
            Parts::Protobuf(items) => items.type_meta(),
        }
    }
}

/// What a list says of itself.
#[derive(Debug, Default, PartialEq, Eq)]
struct About {
    api_version: String,
    kind: String,
    version: String,
}

#[cfg(test)]
mod tests {
    use ferrule_model::ObjectKind;

    use super::*;

    fn json(text: &str) -> Result<String, ReadError> {
        let mut items = Items::new(Encoding::Json, TypeName::of(ObjectKind::Service));
        items.feed(text.as_bytes(), |_| {})?;
        items.finish()
    }

    #[test]
    fn only_a_list_with_a_version_is_one() {
        let list =
            r#"{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}"#;
        assert_eq!(json(list).unwrap(), "7");
        let sorted =
            r#"{"apiVersion":"v1","items":[{}],"kind":"ServiceList","metadata":{"resourceVersion":"7"}}"#;
        assert_eq!(json(sorted).unwrap(), "7");
        let unversioned = r#"{"kind":"ServiceList","apiVersion":"v1","metadata":{},"items":[]}"#;
        assert!(matches!(json(unversioned), Err(ReadError::NoVersion)));
        assert!(matches!(json(&list[..50]), Err(ReadError::EndsEarly)));
    }

    /// A list of Pods has no Services, which does not mean that there are none.
    #[test]
    fn a_list_of_another_kind_or_group_is_none() {
        for (kind, version) in [
            ("PodList", "v1"),
            ("Service", "v1"),
            ("servicelist", "v1"),
            ("ServiceList", "v2"),
            ("ServiceList", "serving.knative.dev/v1"),
            ("EndpointSliceList", "discovery.k8s.io/v1"),
            ("Status", "v1"),
            ("List", "v1"),
            ("", "v1"),
            ("ServiceList", ""),
        ] {
            let about =
                format!(r#""kind":"{kind}","apiVersion":"{version}","metadata":{{"resourceVersion":"7"}}"#);
            for other in [format!(r#"{{{about},"items":[]}}"#), format!(r#"{{"items":[],{about}}}"#)] {
                assert!(matches!(json(&other), Err(ReadError::OtherType { .. })), "{other}");
            }
        }
        assert!(matches!(json(r#"{"metadata":{"resourceVersion":"7"}}"#), Err(ReadError::OtherType { .. })));
    }

    #[test]
    fn nothing_of_a_list_counts_before_it_has_said_what_it_is() {
        let mut items = Items::new(Encoding::Json, TypeName::of(ObjectKind::Service));
        items.feed(br#"{"apiVersion":"v1","items":[{},{}"#, |_| {}).unwrap();
        assert!(!items.is_of_wanted_type());
        let mut items = Items::new(Encoding::Json, TypeName::of(ObjectKind::Service));
        items.feed(br#"{"kind":"ServiceList","apiVersion":"v1","metadata":{},"items":[{}"#, |_| {}).unwrap();
        assert!(items.is_of_wanted_type());
    }
}
