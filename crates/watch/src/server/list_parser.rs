//! Splits a list into its items while it arrives, so that it is never held in memory as a whole.

mod json;
mod protobuf;

use super::events::{Encoding, Raw, ReadError};
use super::type_name::{TypeMeta, TypeName};

/// Larger than any object etcd stores.
const MAX_ITEM_BYTES: usize = 16 << 20;

/// The parser of one list.
#[derive(Debug)]
pub(super) struct ListParser {
    format: Format,
    wanted: TypeName,
    is_type_confirmed: bool,
}

#[derive(Debug)]
enum Format {
    Json(json::JsonParser),
    Protobuf(protobuf::ProtobufParser),
}

impl ListParser {
    /// Accepts only lists of the `wanted` type.
    pub(super) fn new(encoding: Encoding, wanted: TypeName) -> Self {
        let format = match encoding {
            Encoding::Json => Format::Json(json::JsonParser::default()),
            Encoding::Protobuf => Format::Protobuf(protobuf::ProtobufParser::default()),
        };
        Self { format, wanted, is_type_confirmed: false }
    }

    /// Consumes more of the list; calls back for every item that is complete.
    pub(super) fn feed(&mut self, bytes: &[u8], mut on_item: impl FnMut(Raw<'_>)) -> Result<(), ReadError> {
        match &mut self.format {
            Format::Json(parser) => parser.feed(bytes, |item| on_item(Raw::json(item)))?,
            Format::Protobuf(parser) => parser.feed(bytes, |item| on_item(Raw::protobuf(item)))?,
        }
        if !self.is_type_confirmed
            && let Some(found) = self.type_meta()
        {
            self.wanted.check_list(&found)?;
            self.is_type_confirmed = true;
        }
        Ok(())
    }

    /// Whether the list has stated the wanted type. Nothing of it may be reported before.
    pub(super) fn is_type_confirmed(&self) -> bool {
        self.is_type_confirmed
    }

    /// Ends the list; returns its version.
    pub(super) fn finish(self) -> Result<String, ReadError> {
        let ListHeader { api_version, kind, version } = match self.format {
            Format::Json(parser) => parser.finish()?,
            Format::Protobuf(parser) => parser.finish()?,
        };
        self.wanted.check_list(&TypeMeta { api_version: api_version.into(), kind: kind.into() })?;
        if version.is_empty() { Err(ReadError::NoVersion) } else { Ok(version) }
    }

    fn type_meta(&self) -> Option<TypeMeta<'_>> {
        match &self.format {
            Format::Json(parser) => parser.type_meta(),
            Format::Protobuf(parser) => parser.type_meta(),
        }
    }
}

/// The fields of a list beside its items.
#[derive(Debug, Default, PartialEq, Eq)]
struct ListHeader {
    api_version: String,
    kind: String,
    version: String,
}

#[cfg(test)]
mod tests {
    use ferrule_model::ObjectKind;

    use super::*;

    fn json(text: &str) -> Result<String, ReadError> {
        let mut parser = ListParser::new(Encoding::Json, TypeName::for_kind(ObjectKind::Service));
        parser.feed(text.as_bytes(), |_| {})?;
        parser.finish()
    }

    #[test]
    fn a_list_must_have_a_version() {
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

    /// A list of Pods holds no Services; it does not mean that there are none.
    #[test]
    fn a_list_of_another_kind_or_group_is_rejected() {
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
            let header =
                format!(r#""kind":"{kind}","apiVersion":"{version}","metadata":{{"resourceVersion":"7"}}"#);
            for other in [format!(r#"{{{header},"items":[]}}"#), format!(r#"{{"items":[],{header}}}"#)] {
                assert!(matches!(json(&other), Err(ReadError::OtherType { .. })), "{other}");
            }
        }
        assert!(matches!(json(r#"{"metadata":{"resourceVersion":"7"}}"#), Err(ReadError::OtherType { .. })));
    }

    #[test]
    fn the_type_of_a_list_is_unconfirmed_until_it_is_stated() {
        let mut parser = ListParser::new(Encoding::Json, TypeName::for_kind(ObjectKind::Service));
        parser.feed(br#"{"apiVersion":"v1","items":[{},{}"#, |_| {}).unwrap();
        assert!(!parser.is_type_confirmed());
        let mut parser = ListParser::new(Encoding::Json, TypeName::for_kind(ObjectKind::Service));
        parser.feed(br#"{"kind":"ServiceList","apiVersion":"v1","metadata":{},"items":[{}"#, |_| {}).unwrap();
        assert!(parser.is_type_confirmed());
    }
}
