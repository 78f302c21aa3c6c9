//! The tables people write: a header line, then rows whose columns stand two or more spaces apart.

use super::sections::Section;

/// One row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row<'a> {
    /// Its line in the story.
    pub line: usize,
    pub cells: Vec<&'a str>,
}

/// The rows of a section; blank lines, comment lines, the header and remarks behind ` # ` are passed over.
pub(super) fn rows(section: &Section) -> Vec<Row<'_>> {
    let lines = section.body.lines().enumerate();
    lines
        .map(|(at, line)| Row { line: section.line + 1 + at, cells: cells(without_remark(line)) })
        .filter(|row| row.cells.first().is_some_and(|cell| !matches!(*cell, "FROM" | "FLOW")))
        .collect()
}

/// Everything before a remark, which starts with `#` at the beginning of the line or after a space.
fn without_remark(line: &str) -> &str {
    if line.trim_start().starts_with('#') {
        return "";
    }
    line.split_once(" # ").map_or(line, |(row, _)| row)
}

fn cells(line: &str) -> Vec<&str> {
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}
