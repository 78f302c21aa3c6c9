//! `docs/coverage.md`: a summary, then one table for each section of a specification.
//!
//! Names tests and stories but no line numbers, so that the page changes only when coverage does.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::ledger::{Ledger, Standing};
use super::rows::{Catalogue, Section};
use super::tags::Holder;

const INTRODUCTION: &str = "\
# What the tests cover

Made by `cargo xtask coverage` from the tests and stories; do not edit.
Each row of the specification's test tables is held by a test or story that names it, or waits for a part of
Ferrule that does not exist yet. CONTRIBUTING.md says how a test names its row.

";

/// The whole page.
pub fn render(catalogue: &Catalogue, ledger: &Ledger) -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str(&summary(catalogue, ledger));
    for section in &catalogue.sections {
        page.push_str(&section_table(section, ledger));
    }
    for free in &catalogue.free_specs {
        let held = ledger.held_rows_of(&free.spec);
        if !held.is_empty() {
            let rows = held.into_iter().map(|(row, holders)| (row.id.to_string(), holders_cell(holders)));
            page.push_str(&table(&format!("{}: {}", free.spec, free.title), rows));
        }
    }
    page
}

fn summary(catalogue: &Catalogue, ledger: &Ledger) -> String {
    let mut table =
        "| spec | section | about | rows | tested | waiting |\n|---|---|---|--:|--:|--:|\n".to_owned();
    for section in &catalogue.sections {
        let (tested, waiting) = ledger.tested_and_waiting(section.rows());
        let (rows, title) = (section.rows().count(), &section.title);
        line(
            &mut table,
            &format!("| {} | {} | {title} | {rows} | {tested} | {waiting} |", section.spec, section.number),
        );
    }
    let (tested, waiting) = ledger.tested_and_waiting(catalogue.rows());
    line(&mut table, &format!("| **all** | | | {} | {tested} | {waiting} |", catalogue.rows().count()));
    table
}

fn section_table(section: &Section, ledger: &Ledger) -> String {
    let rows = section.rows().map(|row| {
        let place = match ledger.standing(&row) {
            Standing::Tested(holders) => holders_cell(holders),
            Standing::Waiting(reason) => reason.to_owned(),
            Standing::Unheld => "**no test**".to_owned(),
        };
        (row.id.to_string(), place)
    });
    table(&format!("{} {}: {}", section.spec, section.number, section.title), rows)
}

fn table(heading: &str, rows: impl Iterator<Item = (String, String)>) -> String {
    let mut text = format!("\n## {heading}\n\n| row | where |\n|---|---|\n");
    for (id, place) in rows {
        line(&mut text, &format!("| {id} | {place} |"));
    }
    text
}

fn holders_cell(holders: &BTreeSet<Holder>) -> String {
    let links: Vec<String> = holders.iter().map(link).collect();
    links.join(", ")
}

fn link(holder: &Holder) -> String {
    match holder {
        Holder::Test { path, name } => format!("[`{name}`](../{path})"),
        Holder::Story { path, name } => format!("[story {name}](../{path})"),
    }
}

fn line(text: &mut String, row: &str) {
    writeln!(text, "{row}").expect("writing to a String cannot fail");
}
