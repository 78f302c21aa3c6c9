//! Status, plan and differences as text.

use std::fmt::Write as _;

use serde_json::Value;

use super::table::{Color, Style, Table, safe};
use crate::questions::{DiffAnswer, FrontendRow, PlanAnswer};

/// Whether every family is in sync, and there is one.
pub(super) fn is_in_sync(answer: &Value) -> bool {
    let families = answer["families"].as_object();
    families.is_some_and(|families| {
        !families.is_empty() && families.values().all(|family| family["inSync"] == true)
    })
}

pub(super) fn status(answer: &Value, style: Style) -> String {
    let text = |name: &str| safe(answer[name].as_str().unwrap_or("?"));
    let mut out = format!(
        "ferrule {} (answers as kube-proxy {})\nnode {}, {} mode, {} Services\n",
        text("version"),
        text("kubernetes"),
        text("node"),
        text("mode"),
        answer["services"],
    );
    if answer["shadow"] == true {
        out.push_str("shadow: another proxy serves, this one compares\n");
    }
    for (name, family) in answer["families"].as_object().into_iter().flatten() {
        out.push('\n');
        family_status(&mut out, (name, family), style);
    }
    for (kind, since) in answer["unreachable"].as_object().into_iter().flatten() {
        let line = format!("{kind} cannot be watched since {}", since.as_str().unwrap_or("?"));
        let _ = writeln!(out, "\n{}", style.colored(Color::Red, &line));
    }
    if answer["pendingChanges"] == true {
        out.push_str("\nThe cluster has changed since the last sync; the next one follows.\n");
    }
    diagnostics(&mut out, &answer["diagnostics"]);
    out
}

fn family_status(out: &mut String, (name, family): (&str, &Value), style: Style) {
    let state = if family["inSync"] == true {
        style.colored(Color::Green, "in sync")
    } else {
        style.colored(Color::Red, "not in sync")
    };
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "{name}  {state}, {} frontends, {} endpoints in {} pools",
        family["frontends"], family["endpoints"], family["pools"]
    );
    let text = |value: &Value| safe(value.as_str().unwrap_or("?"));
    let (sync, failure, repair) = (&family["lastSync"], &family["lastFailure"], &family["lastRepair"]);
    if sync.is_object() {
        let milliseconds = sync["seconds"].as_f64().unwrap_or_default() * 1000.0;
        let _ = writeln!(
            out,
            "  last sync     {}, {}, {milliseconds:.1} ms, {} written, {} removed",
            text(&sync["at"]),
            text(&sync["outcome"]),
            sync["written"],
            sync["removed"]
        );
    }
    if failure.is_object() {
        let _ = writeln!(out, "  last failure  {}, {}", text(&failure["at"]), text(&failure["error"]));
    }
    if repair.is_object() {
        let by = repair["by"].as_str().map(|by| format!(" by {}", safe(by))).unwrap_or_default();
        let what = repair["what"].as_str().map_or_else(|| "rules repaired".to_owned(), safe);
        let _ = writeln!(out, "  last repair   {}, {what}{by}", text(&repair["at"]));
    }
    if family["differences"].as_u64().is_some_and(|count| count > 0) {
        let line = format!(
            "{} differences have lasted: `ferrule diff` lists what differs now",
            family["differences"]
        );
        let _ = writeln!(out, "  {}", style.colored(Color::Red, &line));
    }
    if family["quarantinedServicePorts"].as_u64().is_some_and(|count| count > 0) {
        let line = format!(
            "{} Service ports are not served: their rules were rejected",
            family["quarantinedServicePorts"]
        );
        let _ = writeln!(out, "  {}", style.colored(Color::Red, &line));
    }
}

fn diagnostics(out: &mut String, diagnostics: &Value) {
    let total = diagnostics["total"].as_u64().unwrap_or(0);
    if total == 0 {
        return;
    }
    let _ = writeln!(out, "\n{total} that cannot be used");
    for diagnostic in diagnostics["first"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "  {}", safe(diagnostic.as_str().unwrap_or("?")));
    }
}

pub(super) fn plan(answer: &PlanAnswer, style: Style) -> String {
    let header: &[&str] = if style.is_wide {
        &["FRONTEND", "SERVICE", "TYPE", "FROM", "THEN", "ENDPOINTS"]
    } else {
        &["FRONTEND", "SERVICE", "FROM", "THEN", "ENDPOINTS"]
    };
    let mut table = Table::new(header);
    for frontend in &answer.frontends {
        frontend_rows(&mut table, answer, frontend, style);
    }
    let mut out = table.text("");
    if answer.total == 0 {
        out.push_str("No frontends match.\n");
    } else if answer.frontends.len() < answer.total {
        let _ = writeln!(out, "{} of {} frontends; --limit shows more", answer.frontends.len(), answer.total);
    }
    if answer.pending_changes {
        out.push_str("The cluster has changed since this was planned.\n");
    }
    out
}

/// A row for each rule; what they are about stands in the first alone.
fn frontend_rows(table: &mut Table, answer: &PlanAnswer, frontend: &FrontendRow, style: Style) {
    for (at, rule) in frontend.rules.iter().enumerate() {
        let first = |text: &'_ str| if at == 0 { text.to_owned() } else { String::new() };
        let (key, service, kind) =
            (first(&frontend.frontend), first(&frontend.service), first(&frontend.kind));
        let endpoints = endpoints(answer, frontend, &rule.then, style);
        if style.is_wide {
            table.row([&*key, &*service, &*kind, &*rule.from, &*rule.then, &*endpoints]);
        } else {
            table.row([&*key, &*service, &*rule.from, &*rule.then, &*endpoints]);
        }
    }
}

/// The endpoints of the pool that a rule forwards to; just the first ones, unless all are wanted.
fn endpoints(answer: &PlanAnswer, frontend: &FrontendRow, then: &str, style: Style) -> String {
    let scope = then.split(' ').next().unwrap_or_default();
    let is_its_pool = |pool: &&crate::questions::PoolRow| {
        pool.service == frontend.service && pool.family == frontend.family && pool.scope == scope
    };
    let Some(pool) = answer.pools.iter().find(is_its_pool) else { return String::new() };
    let shown = if style.is_wide { pool.endpoints.len() } else { 3 };
    let mut text = pool.endpoints.iter().take(shown).cloned().collect::<Vec<_>>().join(",");
    if pool.endpoints.len() > shown {
        let _ = write!(text, " and {} more", pool.endpoints.len() - shown);
    }
    if let Some(seconds) = pool.affinity_seconds {
        let _ = write!(text, " sticky {seconds}s");
    }
    text
}

pub(super) fn diff(answer: &DiffAnswer, style: Style) -> String {
    let mut out = String::new();
    for (name, family) in &answer.families {
        if let Some(error) = &family.error {
            let _ = writeln!(out, "{name}: {}", style.colored(Color::Red, error));
        }
        for line in &family.lines {
            let _ = writeln!(out, "{}", style.colored(line_color(line), line));
        }
    }
    out
}

/// What would be removed in red, everything else in green.
fn line_color(line: &str) -> Color {
    let removes = [" delete ", " flush ", "-D ", "-X ", "ipvsadm -d ", "ipset del ", "ip address del "];
    if removes.iter().any(|word| line.contains(word)) { Color::Red } else { Color::Green }
}
