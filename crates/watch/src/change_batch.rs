//! Changes that a source hands over together, with what was wrong with the objects they come from.

use ferrule_model::{Change, Diagnostic};

/// The unit in which a source reports. The loop applies a batch as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeBatch {
    /// What differs from the state reported before.
    pub changes: Vec<Change>,
    /// Fields and objects that cannot be used, of the changed objects only.
    pub diagnostics: Vec<Diagnostic>,
}

impl ChangeBatch {
    /// A batch without changes may still carry diagnostics.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.diagnostics.is_empty()
    }
}
