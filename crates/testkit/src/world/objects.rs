//! Kubernetes objects written in YAML, for what the short words cannot say.

use ferrule_model::NodeName;
use ferrule_watch::convert::Converted;
use ferrule_watch::file::manifest::{self, Manifest, Object};

use super::WorldError;

/// Reads documents separated by `---` lines.
pub(super) fn converted(yaml: &str, own_node: &NodeName) -> Result<Vec<Converted>, WorldError> {
    let manifests = manifest::yaml(yaml);
    let manifests = manifests.map_err(|fault| WorldError { line: fault.line, problem: fault.problem })?;
    manifests.into_iter().map(|manifest| convert(&manifest, own_node)).collect()
}

/// In a story, a kind that means nothing is a slip.
fn convert(manifest: &Manifest, own_node: &NodeName) -> Result<Converted, WorldError> {
    match &manifest.object {
        Object::Other(kind) => {
            let problem = format!("kind \"{kind}\" is none a proxy reads");
            Err(WorldError { line: manifest.line, problem })
        }
        object => Ok(object.convert(own_node)),
    }
}
