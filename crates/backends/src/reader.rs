//! Compares plans with the kernel beside a running loop, with kernel handles of its own.
//!
//! A question about the kernel may take as long as reading all rules. It is answered on the thread that asked, so the loop
//! never waits for it. Nothing is written.

use std::fmt;
use std::sync::Arc;

use ferrule_model::IpFamily;
use ferrule_plan::{FamilyPlan, FrontendKey};

use crate::{BackendError, Dataplane, HeldFrontend, Patch};

/// Opens a dataplane that is asked for [`Dataplane::diff`] alone.
type Open = dyn Fn(IpFamily) -> Result<Box<dyn Dataplane>, BackendError> + Send + Sync;

/// Compares plans with what the kernel holds. Clones share nothing but how handles are opened.
#[derive(Clone)]
pub struct KernelReader {
    open: Arc<Open>,
    /// A name whose lines are left out of differences.
    left_out: Option<&'static str>,
}

impl KernelReader {
    /// Opens handles in this way, for each question again.
    pub(crate) fn new(
        open: impl Fn(IpFamily) -> Result<Box<dyn Dataplane>, BackendError> + Send + Sync + 'static,
    ) -> Self {
        Self { open: Arc::new(open), left_out: None }
    }

    /// Differences without the lines that have this name in them, and without tables of which no line is left.
    pub(crate) fn without_lines_of(self, name: &'static str) -> Self {
        Self { left_out: Some(name), ..self }
    }

    /// What a sync of this plan would write, by a fresh reading of everything.
    pub fn diff(&self, plan: &FamilyPlan) -> Result<Patch, BackendError> {
        let patch = (self.open)(plan.node.family)?.diff(plan)?;
        Ok(match self.left_out {
            Some(name) => patch.without_lines_of(name),
            None => patch,
        })
    }

    /// What the kernel holds for a frontend, or for what all frontends share.
    pub fn held(&self, plan: &FamilyPlan, key: Option<&FrontendKey>) -> Result<HeldFrontend, BackendError> {
        (self.open)(plan.node.family)?.held(plan, key)
    }
}

impl fmt::Debug for KernelReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KernelReader")
    }
}
