//! Whether the kernel holds what the plan says about one frontend.

use ferrule_backends::{BackendError, HeldFrontend};
use ferrule_model::{IpFamily, with_causes};
use ferrule_plan::FrontendKey;

use super::{KernelDetail, KernelVerdict};
use crate::run::Snapshot;

/// Reads the kernel, on the thread that asks.
pub fn answer(
    snapshot: &Snapshot,
    family: IpFamily,
    key: Option<&FrontendKey>,
) -> (KernelVerdict, KernelDetail) {
    let Some(plan) = snapshot.plan.families.get(family) else {
        return unknown(format!("this node does not serve {family}"));
    };
    match &snapshot.reader {
        Some(reader) => judged(reader.held(plan, key)),
        None => unknown(
            "only the running proxy knows its own sockets in this mode; `ferrule diff` asks it".to_owned(),
        ),
    }
}

/// Nothing was read.
pub fn unknown(problem: String) -> (KernelVerdict, KernelDetail) {
    (KernelVerdict::Unknown, KernelDetail { problem: Some(problem), ..KernelDetail::default() })
}

fn judged(held: Result<HeldFrontend, BackendError>) -> (KernelVerdict, KernelDetail) {
    let HeldFrontend { holds, missing, differing } = match held {
        Ok(held) => held,
        Err(error) => return unknown(with_causes(&error)),
    };
    let verdict = match (differing.is_empty(), missing.is_empty()) {
        (true, true) => KernelVerdict::Agrees,
        (true, false) => KernelVerdict::Missing,
        (false, _) => KernelVerdict::Differs,
    };
    let missing = missing.into_iter().map(|piece| format!("missing: {piece}"));
    let differing = differing.into_iter().map(|piece| format!("differs: {piece}"));
    (verdict, KernelDetail { holds, differences: missing.chain(differing).collect(), problem: None })
}
