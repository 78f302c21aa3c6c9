//! What the log says of a sync.

use std::time::Duration;

use ferrule_backends::{Rejected, SyncOutcome, SyncReport};
use ferrule_model::IpFamily;
use tracing::{error, info};

use super::family::Purpose;

pub(super) fn log_rejected(family: IpFamily, rejected: &[Rejected]) {
    for Rejected { what, reason, is_repeated } in rejected {
        let (what, err) = (what.as_str(), reason.as_str());
        if *is_repeated {
            info!(v = 2, %family, what, err, "Some rules are still rejected");
        } else {
            error!(%family, what, err, "Some rules were rejected, the others are written");
        }
    }
}

pub(super) fn log_success(family: IpFamily, purpose: &Purpose, report: &SyncReport, took: Duration) {
    let SyncReport { written, removed, commits, outcome, .. } = *report;
    let is_notable = match purpose {
        Purpose::Verify => outcome != SyncOutcome::UpToDate,
        Purpose::Retry => outcome.is_repair(),
        Purpose::Repair(_) | Purpose::Change => false,
    };
    let outcome = outcome.name();
    if is_notable {
        info!(%family, written, removed, commits, ?took, outcome, "Rules written");
    } else {
        info!(v = 2, %family, written, removed, commits, ?took, outcome, "Synced");
    }
}
