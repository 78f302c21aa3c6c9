//! userspace mode: not built yet, and kube-proxy's left the kernel long ago.

use std::sync::Arc;

use ferrule_model::IpFamily;
use ferrule_plan::ProxyMode;

use crate::backend::not_built;
use crate::{Backend, BackendError, ModeOptions, Opened, Probe, RuleEventSink};

/// userspace mode.
#[derive(Debug)]
pub struct Userspace;

impl Backend for Userspace {
    fn mode(&self) -> ProxyMode {
        ProxyMode::Userspace
    }

    fn unavailable(&self) -> Option<BackendError> {
        Some(not_built(ProxyMode::Userspace))
    }

    fn probe(&mut self) -> Probe {
        Probe::nothing_works(|| not_built(ProxyMode::Userspace))
    }

    fn open(&mut self, _: &[IpFamily], _: &ModeOptions) -> Result<Opened, BackendError> {
        Err(not_built(ProxyMode::Userspace))
    }

    fn watch(&mut self, _: Arc<dyn RuleEventSink>) -> Result<(), BackendError> {
        Err(not_built(ProxyMode::Userspace))
    }
}
