//! What a sync would write: the plan of the cluster, or of a folder of manifests, compared with the kernel.

use std::path::Path;

use ferrule_model::{Change, Cluster, IpFamily, NodeName, with_causes};
use ferrule_watch::file::ManifestFolder;

use super::{DiffAnswer, FamilyDiff, QuestionError};
use crate::run::{Diffs, Snapshot};

/// Reads the kernel with handles of its own, on the thread that asks; nothing if only the loop can.
pub fn answer(snapshot: &Snapshot) -> Option<DiffAnswer> {
    let reader = snapshot.reader.as_ref()?;
    let mut diffs = Diffs::default();
    for (family, plan) in snapshot.plan.families.iter() {
        diffs.set(family, reader.diff(plan).map_err(|error| with_causes(&error)));
    }
    Some(of(snapshot, &diffs))
}

/// What was found, as an answer.
pub fn of(snapshot: &Snapshot, diffs: &Diffs) -> DiffAnswer {
    let mut answer = DiffAnswer {
        node: snapshot.view.name.to_string(),
        mode: snapshot.mode.name().to_owned(),
        with: "cluster".to_owned(),
        families: std::collections::BTreeMap::new(),
    };
    for family in IpFamily::BOTH {
        let diff = match diffs.get(family) {
            Some(Ok(patch)) => FamilyDiff { lines: patch.lines.clone(), error: None },
            Some(Err(error)) => FamilyDiff { lines: Vec::new(), error: Some(error.clone()) },
            None => continue,
        };
        answer.families.insert(family.to_string(), diff);
    }
    answer
}

/// What a folder of manifests says. The Node and the service ranges stay as they are known, if it says nothing of them.
pub fn cluster_of_folder(folder: &Path, node: &NodeName, known: &Cluster) -> Result<Cluster, QuestionError> {
    let changes = changes_of(folder, node)?;
    let mut cluster = Cluster::default();
    if !changes.iter().any(|change| matches!(change, Change::Node(Some(_)))) {
        cluster.apply(Change::Node(known.node().cloned()));
    }
    let blocks: Vec<_> = IpFamily::BOTH.into_iter().flat_map(|family| known.service_cidrs(family)).collect();
    if !changes.iter().any(|change| matches!(change, Change::ServiceCidr(..))) && !blocks.is_empty() {
        cluster.apply(Change::ServiceCidr("kubernetes".to_owned(), Some(blocks)));
    }
    for change in changes {
        cluster.apply(change);
    }
    Ok(cluster)
}

/// What a folder says. A file that cannot be read completely is an error: an answer without it would be wrong.
fn changes_of(folder: &Path, node: &NodeName) -> Result<Vec<Change>, QuestionError> {
    let mut opened =
        ManifestFolder::open(folder, node.clone()).map_err(|error| QuestionError(with_causes(&error)))?;
    let reading = opened.read();
    if let Some(problem) = reading.problems.iter().find(|problem| !problem.is_note()) {
        return Err(QuestionError(problem.to_string()));
    }
    Ok(reading.batch.changes)
}
