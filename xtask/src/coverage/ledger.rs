//! For each row, the tests that hold it or what it waits for; and contradictions between the two.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::{self, Catalogue, Row};
use super::tags::{Holder, Tags};
use crate::finding::Finding;

/// All tags and waiting rows of the repository, entered and compared.
#[derive(Debug, Default)]
pub struct Ledger {
    held: BTreeMap<Row, BTreeSet<Holder>>,
    waiting: BTreeMap<Row, String>,
    pub findings: Vec<Finding>,
}

/// The state of a row.
#[derive(Debug)]
pub enum Standing<'a> {
    Tested(&'a BTreeSet<Holder>),
    Waiting(&'a str),
    Unheld,
}

impl Ledger {
    /// Enters the tags of one file.
    pub fn add_tags(&mut self, tags: Tags, catalogue: &Catalogue) {
        self.findings.extend(tags.findings);
        for tag in tags.tags {
            if catalogue.has(&tag.row) {
                self.held.entry(tag.row).or_default().insert(tag.holder);
            } else {
                self.findings.push(Finding::new(&tag.path, tag.line, unknown_row(&tag.row)));
            }
        }
    }

    /// Enters the waiting list, after all tags: lines of the form `spec ids  reason`.
    pub fn add_waiting(&mut self, path: &str, text: &str, catalogue: &Catalogue) {
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let objections = match waiting_line(line) {
                Ok((rows, reason)) => self.add_waiting_rows(rows, reason, catalogue),
                Err(why) => vec![why],
            };
            self.findings.extend(objections.into_iter().map(|why| Finding::new(path, index + 1, why)));
        }
    }

    fn add_waiting_rows(&mut self, rows: Vec<Row>, reason: &str, catalogue: &Catalogue) -> Vec<String> {
        let mut objections = Vec::new();
        for row in rows {
            objections.extend(self.objection(&row, catalogue));
            self.waiting.insert(row, reason.to_owned());
        }
        objections
    }

    fn objection(&self, row: &Row, catalogue: &Catalogue) -> Option<String> {
        if !catalogue.has(row) {
            Some(unknown_row(row))
        } else if self.held.contains_key(row) {
            Some(format!("row {row} is tested and need not wait; take it out"))
        } else if self.waiting.contains_key(row) {
            Some(format!("row {row} waits twice; take one out"))
        } else {
            None
        }
    }

    pub fn standing(&self, row: &Row) -> Standing<'_> {
        match (self.held.get(row), self.waiting.get(row)) {
            (Some(holders), _) => Standing::Tested(holders),
            (None, Some(reason)) => Standing::Waiting(reason),
            (None, None) => Standing::Unheld,
        }
    }

    /// Whether no test holds it and it waits for nothing.
    pub fn is_unheld(&self, row: &Row) -> bool {
        matches!(self.standing(row), Standing::Unheld)
    }

    /// The rows of a specification without a catalogue, and who holds them.
    pub fn held_rows_of(&self, spec: &str) -> Vec<(&Row, &BTreeSet<Holder>)> {
        self.held.iter().filter(|(row, _)| row.spec == spec).collect()
    }

    /// How many of these rows are tested, and how many wait.
    pub fn tested_and_waiting(&self, rows: impl Iterator<Item = Row>) -> (usize, usize) {
        let (mut tested, mut waiting) = (0, 0);
        for row in rows {
            match self.standing(&row) {
                Standing::Tested(_) => tested += 1,
                Standing::Waiting(_) => waiting += 1,
                Standing::Unheld => {}
            }
        }
        (tested, waiting)
    }

    /// The totals in one line.
    pub fn summary(&self, catalogue: &Catalogue) -> String {
        let (tested, waiting) = self.tested_and_waiting(catalogue.rows());
        let unheld = catalogue.rows().filter(|row| self.is_unheld(row)).count();
        format!(
            "{} rows, {tested} tested, {waiting} waiting, {unheld} without a test",
            catalogue.rows().count()
        )
    }
}

fn waiting_line(line: &str) -> Result<(Vec<Row>, &str), String> {
    let (list, reason) = line.split_once("  ").map_or((line, ""), |(list, reason)| (list, reason.trim()));
    if reason.is_empty() {
        return Err("a waiting row without a reason; write `model L1-L16  waits for …`".to_owned());
    }
    Ok((rows::parse_list(list)?, reason))
}

fn unknown_row(row: &Row) -> String {
    format!("there is no row {row}; see xtask/spec-rows.txt for those there are")
}
