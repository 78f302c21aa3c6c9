//! What is wrong with a table.

use super::Table;
use super::report::Outcome;

/// The proxy that Ferrule is compared with.
pub const PEER: &str = "kube-proxy";
/// The modes, in the order of the columns.
pub const MODES: [&str; 4] = ["nftables", "iptables", "ipvs", "userspace"];

/// The parts of a column's name.
pub fn proxy_and_mode(column: &str) -> Option<(&str, &str)> {
    column.rsplit_once('-').filter(|(_, mode)| MODES.contains(mode))
}

/// A line for each spec that passes with kube-proxy and not with Ferrule, and for each that did not pass without a reason.
pub fn findings(table: &Table) -> Vec<String> {
    let mut findings = Vec::new();
    for (name, outcomes) in &table.specs {
        for (column, outcome) in outcomes {
            let peer = proxy_and_mode(column).map(|(_, mode)| format!("{PEER}-{mode}"));
            let passes = |column: &String| matches!(outcomes.get(column), Some(Outcome::Passed { .. }));
            let finding = match outcome {
                Outcome::Failed { message, .. } if peer.as_ref().is_some_and(passes) => {
                    format!("{column}: fails, and passes with kube-proxy: {name}: {message}")
                }
                Outcome::Failed { message, reason: None } => format!("{column}: fails: {name}: {message}"),
                Outcome::Skipped { .. } if peer.as_ref().is_some_and(passes) => {
                    format!("{column}: skipped, and passes with kube-proxy: {name}")
                }
                Outcome::Skipped { reason: None } => format!("{column}: skipped for no reason: {name}"),
                Outcome::Passed { .. } | Outcome::Failed { .. } | Outcome::Skipped { .. } => continue,
            };
            findings.push(finding);
        }
    }
    findings
}

/// A line for each spec that passes with kube-proxy and that Ferrule's report in the same mode does not have, as when a run was ended early.
pub fn absent(table: &Table) -> Vec<String> {
    let mut findings = Vec::new();
    for column in &table.columns {
        let Some((proxy, mode)) = proxy_and_mode(column).filter(|(proxy, _)| *proxy != PEER) else {
            continue;
        };
        let peer = format!("{PEER}-{mode}");
        for (name, outcomes) in &table.specs {
            let passes = matches!(outcomes.get(&peer), Some(Outcome::Passed { .. }));
            if passes && !outcomes.contains_key(column) {
                findings.push(format!("{proxy}-{mode}: not run, and passes with kube-proxy: {name}"));
            }
        }
    }
    findings
}
