//! What the running proxy knows about itself: how far each family is in sync, what was repaired, what cannot be used.

use ferrule_config::cli::version;
use ferrule_model::IpFamily;
use ferrule_plan::FamilyPlan;
use serde_json::{Value, json};

use crate::health::Moment;
use crate::run::{FamilyStatus, LastSync, Snapshot};

/// The list of diagnostics ends here; their number is always given.
const MAX_DIAGNOSTICS: usize = 100;

/// What the running proxy knows about itself.
pub fn answer(snapshot: &Snapshot) -> Value {
    let families: serde_json::Map<String, Value> = snapshot
        .families
        .iter()
        .map(|(family, status)| (family.to_string(), part(snapshot, family, status)))
        .collect();
    let unreachable: serde_json::Map<String, Value> =
        snapshot.unreachable.iter().map(|(kind, since)| (kind.to_string(), time(*since))).collect();
    let diagnostics: Vec<String> =
        snapshot.diagnostics.iter().take(MAX_DIAGNOSTICS).map(ToString::to_string).collect();
    json!({
        "version": version::FERRULE,
        "kubernetes": version::KUBERNETES.tag(),
        "mode": snapshot.mode.name(),
        "shadow": snapshot.is_shadow,
        "node": snapshot.view.name.to_string(),
        "pendingChanges": snapshot.has_pending_changes,
        "services": snapshot.cluster.services().len(),
        "families": families,
        "unreachable": unreachable,
        "diagnostics": { "total": snapshot.diagnostics.len(), "first": diagnostics },
    })
}

fn part(snapshot: &Snapshot, family: IpFamily, status: &FamilyStatus) -> Value {
    let plan = snapshot.plan.families.get(family);
    json!({
        "inSync": status.is_in_sync,
        "lastSync": status.last_sync.as_ref().map(last_sync),
        "lastFailure": status.last_failure.as_ref().map(|(at, error)| json!({ "at": time(*at), "error": error })),
        "lastRepair": status.last_repair.as_ref().map(|(at, drift)| json!({
            "at": time(*at),
            "what": drift.as_ref().map(|drift| &drift.what),
            "by": drift.as_ref().and_then(|drift| drift.by.as_ref()),
        })),
        "quarantinedServicePorts": status.quarantined,
        "differences": status.differing,
        "frontends": plan.map_or(0, |plan| plan.frontends().count()),
        "pools": plan.map_or(0, |plan| plan.pools().len()),
        "endpoints": plan.map_or(0, FamilyPlan::endpoint_count),
    })
}

fn last_sync(sync: &LastSync) -> Value {
    json!({
        "at": time(sync.at),
        "seconds": sync.took.as_secs_f64(),
        "outcome": sync.outcome.name(),
        "written": sync.written,
        "removed": sync.removed,
    })
}

fn time(moment: Moment) -> Value {
    Value::String(moment.wall.to_string())
}
