//! The text of a manifest, read into API objects: YAML with any number of documents, JSON, and lists of either.
//!
//! A text is good or bad as a whole, and a bad one is told with its line. Objects are as written; what an API server
//! would have filled in is added by [`Object::fill_in`].

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use ferrule_model::NodeName;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_saphyr::{Options, Spanned};

use super::defaults;
use crate::api;
use crate::convert::{self, Converted};

/// An object of a manifest, and where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Its line, counted from 1; in a list that is JSON, the line of the list.
    pub line: usize,
    /// A digest of its text, by which an unchanged object is known.
    pub digest: u64,
    /// The object.
    pub object: Object,
}

/// An object of one of the kinds a proxy reads, or another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are Kubernetes' own")]
pub enum Object {
    Service(Box<api::Service>),
    EndpointSlice(api::EndpointSlice),
    Node(api::Node),
    ServiceCidr(api::ServiceCidr),
    /// A kind that a proxy has no use for.
    Other(String),
}

/// What makes a text no manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct Fault {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong there.
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
    /// What the object means; nothing for kinds that mean nothing.
    pub fn convert(&self, own_node: &NodeName) -> Converted {
        match self {
            Self::Service(object) => convert::service(object),
            Self::EndpointSlice(object) => convert::endpoint_slice(object, own_node),
            Self::Node(object) => convert::node(object),
            Self::ServiceCidr(object) => convert::service_cidr(object),
            Self::Other(_) => Converted::default(),
        }
    }

    /// Fills in what the API server would have, for objects that no server has seen.
    pub fn fill_in(&mut self) {
        match self {
            Self::Service(object) => defaults::service(object),
            Self::EndpointSlice(object) => defaults::endpoint_slice(object),
            Self::Node(_) | Self::ServiceCidr(_) | Self::Other(_) => {}
        }
    }

    /// An object of a kind out of whatever holds its fields.
    fn read<E>(kind: &str, mut fields: impl Fields<Error = E>) -> Result<Self, E> {
        Ok(match kind {
            "Service" => Self::Service(fields.read()?),
            "EndpointSlice" => Self::EndpointSlice(fields.read()?),
            "Node" => Self::Node(fields.read()?),
            "ServiceCIDR" => Self::ServiceCidr(fields.read()?),
            other => Self::Other(other.to_string()),
        })
    }
}

/// Reads YAML, several documents in a row.
pub fn yaml(text: &str) -> Result<Vec<Manifest>, Fault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut found = Vec::new();
    for (line, document) in documents(text) {
        let document = Yaml { line, text: document };
        if document.is_blank() {
            continue;
        }
        let Kind { kind } = document.read()?;
        if is_list(&kind) {
            let list: List<Spanned<Value>> = document.read()?;
            for item in list.items.unwrap_or_default() {
                // Zero is "unknown".
                let within = usize::try_from(item.referenced.line()).unwrap_or(0).max(1);
                found.push(list_item(line + within - 1, item.value)?);
            }
        } else {
            let (line, digest) = (document.first_line(), digest(document.text));
            found.push(Manifest { line, digest, object: Object::read(&kind, document)? });
        }
    }
    Ok(found)
}

/// Reads one JSON object, which may be a list.
pub fn json(text: &str) -> Result<Vec<Manifest>, Fault> {
    let Kind { kind } = Json(text).read()?;
    if is_list(&kind) {
        let list: List<Value> = Json(text).read()?;
        return list.items.unwrap_or_default().into_iter().map(|item| list_item(1, item)).collect();
    }
    Ok(vec![Manifest { line: 1, digest: digest(text), object: Object::read(&kind, Json(text))? }])
}

/// `List`, and what `kubectl get --raw` gives: `ServiceList`, `EndpointSliceList`, …
fn is_list(kind: &str) -> bool {
    kind.ends_with("List")
}

fn list_item(line: usize, item: Value) -> Result<Manifest, Fault> {
    let fault = |problem: String| Fault { line, problem };
    let Some(kind) = item.get("kind").and_then(Value::as_str) else {
        return Err(fault("an item of the list has no kind".into()));
    };
    let named = format!(
        "{kind} {}",
        item.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("without a name")
    );
    let (kind, digest) = (kind.to_string(), digest(&item.to_string()));
    let object = Object::read(&kind, Tree(item));
    let object = object.map_err(|error| fault(format!("in the list's {named}: {error}")))?;
    Ok(Manifest { line, digest, object })
}

/// Something that holds the fields of an object, to be read as one kind or another.
trait Fields {
    type Error;

    fn read<T: DeserializeOwned>(&mut self) -> Result<T, Self::Error>;
}

/// A document of YAML, which begins on a line of its file.
#[derive(Clone, Copy)]
struct Yaml<'a> {
    line: usize,
    text: &'a str,
}

impl Yaml<'_> {
    fn read<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        serde_saphyr::from_str_with_options(self.text, options()).map_err(|error| {
            let within = error.location().and_then(|at| usize::try_from(at.line()).ok()).unwrap_or(0).max(1);
            Fault { line: self.line + within - 1, problem: in_one_line(&error.to_string()) }
        })
    }

    /// Nothing but white space and comments.
    fn is_blank(&self) -> bool {
        self.text.lines().all(says_nothing)
    }

    fn first_line(&self) -> usize {
        self.line + self.text.lines().position(|line| !says_nothing(line)).unwrap_or(0)
    }
}

fn says_nothing(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

impl Fields for Yaml<'_> {
    type Error = Fault;

    fn read<T: DeserializeOwned>(&mut self) -> Result<T, Fault> {
        Yaml::read(self)
    }
}

struct Json<'a>(&'a str);

impl Fields for Json<'_> {
    type Error = Fault;

    fn read<T: DeserializeOwned>(&mut self) -> Result<T, Fault> {
        serde_json::from_str(self.0)
            .map_err(|error| Fault { line: error.line().max(1), problem: error.to_string() })
    }
}

/// An item of a list, which is read before its kind is known.
struct Tree(Value);

impl Fields for Tree {
    type Error = serde_json::Error;

    fn read<T: DeserializeOwned>(&mut self) -> Result<T, serde_json::Error> {
        serde_json::from_value(self.0.take())
    }
}

/// A folder may hold as many objects as a cluster; limits against hostile nesting and aliases stay.
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

/// Each document of a text with the line it starts on. Only a line that begins with `---` sets two apart.
fn documents(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let (mut start, mut started_on) = (0, 1);
    let mut at = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let marks = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if marks {
            found.push((started_on, &text[start..at]));
            (start, started_on) = (at + "---".len(), index + 1);
        }
        at += line.len();
    }
    found.push((started_on, &text[start..]));
    found
}
