//! Kubernetes objects written in YAML, for what the short words cannot say.

use ferrule_model::NodeName;
use ferrule_watch::{api, convert, convert::Converted};
use serde::Deserialize;

use super::WorldError;

#[derive(Deserialize)]
struct Kind {
    kind: String,
}

/// Reads documents separated by `---` lines.
pub(super) fn converted(yaml: &str, own_node: &NodeName) -> Result<Vec<Converted>, WorldError> {
    documents(yaml)
        .map(|(line, document)| {
            convert_one(document, own_node).map_err(|problem| WorldError { line, problem })
        })
        .collect()
}

/// Each document with the line it starts on; blank ones are passed over.
fn documents(yaml: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = 0;
    let mut line = 1;
    let mut found = Vec::new();
    for (at, separator) in yaml.match_indices("\n---") {
        found.push((line, &yaml[start..at]));
        line += yaml[start..at].matches('\n').count() + 1;
        start = at + separator.len();
    }
    found.push((line, &yaml[start..]));
    found.into_iter().filter(|(_, document)| !document.trim().is_empty())
}

fn convert_one(document: &str, own_node: &NodeName) -> Result<Converted, String> {
    let kind: Kind = read(document)?;
    match kind.kind.as_str() {
        "Service" => Ok(convert::service(&read::<api::Service>(document)?)),
        "EndpointSlice" => Ok(convert::endpoint_slice(&read::<api::EndpointSlice>(document)?, own_node)),
        "Node" => Ok(convert::node(&read::<api::Node>(document)?)),
        "ServiceCIDR" => Ok(convert::service_cidr(&read::<api::ServiceCidr>(document)?)),
        other => Err(format!("kind \"{other}\" is none a proxy reads")),
    }
}

fn read<T: for<'de> Deserialize<'de>>(document: &str) -> Result<T, String> {
    serde_saphyr::from_str(document).map_err(|error| error.to_string())
}
