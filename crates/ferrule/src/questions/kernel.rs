//! Whether the kernel holds what the plan says about one frontend.

use ferrule_backends::{BackendError, HeldFrontend, table_family};
use ferrule_kernel::nft::{HookPoint, NftClient, Obstacle, Stops};
use ferrule_model::{IpFamily, with_causes};

use super::explain::Explained;
use super::{KernelDetail, KernelVerdict};
use crate::run::Snapshot;

/// Reads the kernel, on the thread that asks.
pub fn answer(snapshot: &Snapshot, explained: &Explained) -> (KernelVerdict, KernelDetail) {
    let family = explained.family;
    let Some(plan) = snapshot.plan.families.get(family) else {
        return unknown(format!("this node does not serve {family}"));
    };
    let (verdict, detail) = match &snapshot.reader {
        Some(reader) => judged(reader.held(plan, explained.frontend.as_ref())),
        None => unknown(
            "only the running proxy knows its own sockets in this mode; `ferrule diff` asks it".to_owned(),
        ),
    };
    (verdict, KernelDetail { others: others(family, explained.is_sent_by_node), ..detail })
}

/// Base chains of other programs that may stop a packet, a line each; or why they cannot be read.
fn others(family: IpFamily, is_sent_by_node: bool) -> Vec<String> {
    let read = NftClient::open(table_family(family)).and_then(|mut client| client.obstacles());
    let obstacles = match read {
        Ok(obstacles) => obstacles,
        Err(error) => return vec![format!("not known: {}", with_causes(&error))],
    };
    let is_on_route = |obstacle: &&Obstacle| match obstacle.point {
        HookPoint::Prerouting | HookPoint::Input | HookPoint::Forward => !is_sent_by_node,
        HookPoint::Output => is_sent_by_node,
        HookPoint::Postrouting => true,
    };
    obstacles.iter().filter(is_on_route).map(in_words).collect()
}

fn in_words(obstacle: &Obstacle) -> String {
    let Obstacle { family, table, chain, point, priority, how } = obstacle;
    let how = match how {
        Stops::ByPolicy => "drops what none of its rules accepts",
        Stops::ByRules => "has rules that drop or reject",
    };
    format!("table {family} {table}, chain {chain} (hook {}, priority {priority}) {how}", point.name())
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
    let differences = missing.chain(differing).collect();
    (verdict, KernelDetail { holds, differences, ..KernelDetail::default() })
}
