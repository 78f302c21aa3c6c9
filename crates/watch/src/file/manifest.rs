//! Parses manifests into API objects: YAML with any number of documents, JSON, and lists in either.
//!
//! One error rejects the whole text, with its line. Objects are as written; [`Object::apply_defaults`] adds the defaults
//! of the API server.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use ferrule_model::NodeName;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_saphyr::{Options, Spanned};

use super::defaults;
use crate::api;
use crate::convert::{self, Converted};

/// An object and its position in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Counted from 1; for a list in JSON, the line of the list.
    pub line: usize,
    /// Digest of its text, to recognise an unchanged object.
    pub digest: u64,
    /// As written, before defaults.
    pub object: Object,
}

/// An object of a kind a proxy uses, or the name of another kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are Kubernetes' own")]
pub enum Object {
    Service(Box<api::Service>),
    EndpointSlice(api::EndpointSlice),
    Endpoints(api::Endpoints),
    Node(api::Node),
    ServiceCidr(api::ServiceCidr),
    /// A kind that a proxy does not use.
    Other(String),
}

/// Why a text is not a manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct ManifestError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong in that line.
    pub problem: String,
}

#[derive(Deserialize)]
struct Kind {
    kind: String,
}

#[derive(Deserialize)]
struct List<T> {
    items: Option<Vec<T>>,
}

impl Object {
    /// The change it stands for; empty for kinds a proxy does not use.
    pub fn convert(&self, own_node: &NodeName) -> Converted {
        match self {
            Self::Service(object) => convert::service(object),
            Self::EndpointSlice(object) => convert::endpoint_slice(object, own_node),
            Self::Endpoints(object) => convert::endpoints(object, own_node),
            Self::Node(object) => convert::node(object),
            Self::ServiceCidr(object) => convert::service_cidr(object),
            Self::Other(_) => Converted::default(),
        }
    }

    /// Adds the defaults an API server would have added.
    pub fn apply_defaults(&mut self) {
        match self {
            Self::Service(object) => defaults::service(object),
            Self::EndpointSlice(object) => defaults::endpoint_slice(object),
            Self::Endpoints(object) => defaults::endpoints(object),
            Self::Node(_) | Self::ServiceCidr(_) | Self::Other(_) => {}
        }
    }

    fn decode(kind: &str, fields: &impl Decode) -> Result<Self, ManifestError> {
        Ok(match kind {
            "Service" => Self::Service(fields.decode()?),
            "EndpointSlice" => Self::EndpointSlice(fields.decode()?),
            "Endpoints" => Self::Endpoints(fields.decode()?),
            "Node" => Self::Node(fields.decode()?),
            "ServiceCIDR" => Self::ServiceCidr(fields.decode()?),
            other => Self::Other(other.to_string()),
        })
    }
}

/// Parses YAML with any number of documents.
pub fn yaml(text: &str) -> Result<Vec<Manifest>, ManifestError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut found = Vec::new();
    for (line, document) in documents(text) {
        let document = Yaml { line, text: document };
        if document.is_blank() {
            continue;
        }
        let Kind { kind } = document.parse()?;
        if is_list(&kind) {
            let list: List<Spanned<Value>> = document.parse()?;
            for item in list.items.unwrap_or_default() {
                // Zero means that the line is unknown.
                let within = usize::try_from(item.referenced.line()).unwrap_or(0).max(1);
                found.push(list_item(line + within - 1, &item.value)?);
            }
        } else {
            let (line, digest) = (document.first_line(), digest(document.text));
            found.push(Manifest { line, digest, object: Object::decode(&kind, &document)? });
        }
    }
    Ok(found)
}

/// Parses one JSON object, which may be a list.
pub fn json(text: &str) -> Result<Vec<Manifest>, ManifestError> {
    let Kind { kind } = Json(text).decode()?;
    if is_list(&kind) {
        let list: List<Value> = Json(text).decode()?;
        return list.items.unwrap_or_default().iter().map(|item| list_item(1, item)).collect();
    }
    Ok(vec![Manifest { line: 1, digest: digest(text), object: Object::decode(&kind, &Json(text))? }])
}

/// `List`, and what `kubectl get --raw` gives: `ServiceList`, `EndpointSliceList`, …
fn is_list(kind: &str) -> bool {
    kind.ends_with("List")
}

fn list_item(line: usize, item: &Value) -> Result<Manifest, ManifestError> {
    let fault = |problem: String| ManifestError { line, problem };
    let Some(kind) = item.get("kind").and_then(Value::as_str) else {
        return Err(fault("an item of the list has no kind".into()));
    };
    let named = format!(
        "{kind} {}",
        item.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("without a name")
    );
    let text = item.to_string();
    let object = Object::decode(kind, &Json(&text)).map_err(|ManifestError { problem, .. }| {
        // Where it is in our own text would only confuse.
        let problem = problem.rsplit_once(" at line ").map_or(&*problem, |(problem, _)| problem);
        fault(format!("in the list's {named}: {problem}"))
    })?;
    Ok(Manifest { line, digest: digest(&text), object })
}

/// A document that can be decoded as any type.
trait Decode {
    fn decode<T: DeserializeOwned>(&self) -> Result<T, ManifestError>;
}

/// A YAML document and the line it starts on.
#[derive(Clone, Copy)]
struct Yaml<'a> {
    line: usize,
    text: &'a str,
}

impl Yaml<'_> {
    fn parse<T: DeserializeOwned>(&self) -> Result<T, ManifestError> {
        serde_saphyr::from_str_with_options(self.text, options()).map_err(|error| {
            let within = error.location().and_then(|at| usize::try_from(at.line()).ok()).unwrap_or(0).max(1);
            ManifestError { line: self.line + within - 1, problem: in_one_line(&error.to_string()) }
        })
    }

    fn is_blank(&self) -> bool {
        self.text.lines().all(is_blank_or_comment)
    }

    fn first_line(&self) -> usize {
        self.line + self.text.lines().position(|line| !is_blank_or_comment(line)).unwrap_or(0)
    }
}

fn is_blank_or_comment(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

impl Decode for Yaml<'_> {
    fn decode<T: DeserializeOwned>(&self) -> Result<T, ManifestError> {
        self.parse()
    }
}

struct Json<'a>(&'a str);

impl Decode for Json<'_> {
    /// From bytes, as answers of the API server are decoded: every other source would be another copy of all decoders in the program.
    fn decode<T: DeserializeOwned>(&self) -> Result<T, ManifestError> {
        serde_json::from_slice(self.0.as_bytes())
            .map_err(|error| ManifestError { line: error.line().max(1), problem: error.to_string() })
    }
}

/// A directory may hold as many objects as a cluster. Limits against hostile nesting and aliases stay in force.
fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
        },
        with_snippet: false,
    }
}

fn digest(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The documents of a text, each with the line it starts on. Only a line that begins with `---` separates two.
fn documents(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let (mut start, mut started_on) = (0, 1);
    let mut at = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let is_separator = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if is_separator {
            found.push((started_on, &text[start..at]));
            (start, started_on) = (at + "---".len(), index + 1);
        }
        at += line.len();
    }
    found.push((started_on, &text[start..]));
    found
}
