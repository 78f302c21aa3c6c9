//! The table as Markdown: a summary, the specs that ran, and those that did not with the reasons.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Table;
use super::report::Outcome;

/// How many specs passed, failed and were skipped, by column.
pub fn summary(table: &Table) -> String {
    let mut text = "| proxy and mode | passed | failed | not run |\n|---|--:|--:|--:|\n".to_owned();
    for column in &table.columns {
        let outcomes = || table.specs.values().filter_map(|outcomes| outcomes.get(column));
        let passed = outcomes().filter(|outcome| matches!(outcome, Outcome::Passed { .. })).count();
        let failed = outcomes().filter(|outcome| matches!(outcome, Outcome::Failed { .. })).count();
        let skipped = outcomes().filter(|outcome| matches!(outcome, Outcome::Skipped { .. })).count();
        line(&mut text, &format!("| {} | {passed} | {failed} | {skipped} |", title(column)));
    }
    text
}

/// The whole page.
pub fn render(table: &Table) -> String {
    let mut page = summary(table);
    page.push_str(&specs_that_ran(table));
    page.push_str(&failures(table));
    page.push_str(&specs_that_did_not(table));
    page
}

fn specs_that_ran(table: &Table) -> String {
    let titles: Vec<String> = table.columns.iter().map(|column| title(column)).collect();
    let mut text =
        format!("\n## Specs\n\n| spec | {} |\n|---|{}\n", titles.join(" | "), "--:|".repeat(titles.len()));
    for (name, outcomes) in &table.specs {
        if outcomes.values().all(|outcome| matches!(outcome, Outcome::Skipped { .. })) {
            continue;
        }
        let cells = table.columns.iter().map(|column| outcomes.get(column).map_or(String::new(), cell));
        line(&mut text, &format!("| {} | {} |", escaped(name), cells.collect::<Vec<_>>().join(" | ")));
    }
    text
}

fn cell(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Passed { seconds, attempts: 0 | 1 } => format!("✓ {seconds:.0} s"),
        Outcome::Passed { seconds, attempts } => format!("✓ {seconds:.0} s, attempt {attempts}"),
        Outcome::Failed { .. } => "✗".to_owned(),
        Outcome::Skipped { .. } => "–".to_owned(),
    }
}

fn failures(table: &Table) -> String {
    let mut text = String::new();
    for (name, outcomes) in &table.specs {
        for (column, outcome) in outcomes {
            if let Outcome::Failed { message, reason } = outcome {
                let reason = reason.as_deref().unwrap_or("**not explained**");
                line(
                    &mut text,
                    &format!("| {} | {} | {reason}; {} |", title(column), escaped(name), escaped(message)),
                );
            }
        }
    }
    if text.is_empty() {
        text
    } else {
        format!("\n## Failed\n\n| proxy and mode | spec | why |\n|---|---|---|\n{text}")
    }
}

fn specs_that_did_not(table: &Table) -> String {
    let mut reasons: BTreeMap<(&str, Vec<&str>), Vec<&str>> = BTreeMap::new();
    for (name, outcomes) in &table.specs {
        let mut columns: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (column, outcome) in outcomes {
            if let Outcome::Skipped { reason } = outcome {
                columns.entry(reason.as_deref().unwrap_or("**not explained**")).or_default().push(column);
            }
        }
        for (reason, columns) in columns {
            reasons.entry((reason, columns)).or_default().push(name);
        }
    }
    let mut text = "\n## Not run\n\n| specs | with | why |\n|---|---|---|\n".to_owned();
    for ((reason, columns), names) in reasons {
        let all = columns.len() == table.columns.len();
        let with = if all {
            "all".to_owned()
        } else {
            columns.iter().map(|column| title(column)).collect::<Vec<_>>().join(", ")
        };
        let names: Vec<String> = names.iter().map(|name| escaped(name)).collect();
        line(&mut text, &format!("| {} | {with} | {} |", names.join("<br>"), escaped(reason)));
    }
    text
}

/// `ferrule-nftables` as people say it.
fn title(column: &str) -> String {
    let (proxy, mode) = super::judge::proxy_and_mode(column).unwrap_or((column, ""));
    let proxy = if proxy == "ferrule" { "Ferrule" } else { proxy };
    format!("{proxy} {mode}")
}

/// Text in a cell of a table.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

fn line(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{line}");
}
