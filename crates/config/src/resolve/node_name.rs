//! The name of this node: what the API server calls it.

use ferrule_model::NodeName;

use crate::settings::NodeNameSource;

/// Why there is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeNameError {
    /// Nothing but white space.
    #[error("the node name is empty")]
    Empty,
}

/// A name as the API server spells it: without surrounding space, in lower case.
pub fn node_name(text: &str) -> Result<NodeName, NodeNameError> {
    match text.trim() {
        "" => Err(NodeNameError::Empty),
        name => Ok(NodeName::new(&name.to_lowercase())),
    }
}

/// The configured name, or else the operating system's.
pub fn resolve_node_name(source: &NodeNameSource, hostname: &str) -> Result<NodeName, NodeNameError> {
    match source {
        NodeNameSource::Hostname => node_name(hostname),
        NodeNameSource::Override(text) => node_name(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_trimmed_and_lower_cased() {
        let named = |source, hostname| resolve_node_name(&source, hostname).map(|name| name.to_string());
        assert_eq!(named(NodeNameSource::Hostname, "Node-A.Example\n"), Ok("node-a.example".to_owned()));
        assert_eq!(named(NodeNameSource::Override("  B ".to_owned()), "a"), Ok("b".to_owned()));
        assert_eq!(named(NodeNameSource::Override(" ".to_owned()), "a"), Err(NodeNameError::Empty));
        assert_eq!(named(NodeNameSource::Hostname, ""), Err(NodeNameError::Empty));
    }
}
