//! Options that may change while the mode runs.

use std::sync::{Arc, Mutex, PoisonError};

use crate::ModeOptions;

/// What is configured now. Changed by the backend, read by the dataplanes. Shared by clones.
#[derive(Clone, Debug)]
pub(super) struct LiveOptions(Arc<Mutex<ModeOptions>>);

impl LiveOptions {
    pub(super) fn new(options: &ModeOptions) -> Self {
        Self(Arc::new(Mutex::new(options.clone())))
    }

    pub(super) fn get(&self) -> ModeOptions {
        // No change of it can fail half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set(&self, options: &ModeOptions) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone_from(options);
    }
}
