//! Claims and observations, as a table at the end.

use std::fmt::Write as _;

/// The rows so far.
#[derive(Debug, Default)]
pub struct Report {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    what: &'static str,
    seen: String,
    is_well: bool,
}

impl Report {
    /// Prints and records an observation, and whether it supports the claim.
    pub fn note(&mut self, what: &'static str, is_well: bool, seen: impl Into<String>) {
        let seen = seen.into();
        println!("   {} {seen}", if is_well { "✓" } else { "✗ FAILED:" });
        self.rows.push(Row { what, seen, is_well });
    }

    /// Whether all claims hold.
    pub fn is_all_well(&self) -> bool {
        self.rows.iter().all(|row| row.is_well)
    }

    /// All rows, aligned.
    pub fn table(&self) -> String {
        let width = self.rows.iter().map(|row| row.what.chars().count()).max().unwrap_or(0);
        let mut text = format!("\n   {:width$}   SEEN\n", "CLAIM");
        for Row { what, seen, is_well } in &self.rows {
            let mark = if *is_well { '✓' } else { '✗' };
            let _ = writeln!(text, " {mark} {what:width$}   {seen}");
        }
        let well = self.rows.iter().filter(|row| row.is_well).count();
        let _ = writeln!(text, "\n{well} of {} claims hold.", self.rows.len());
        text
    }
}
