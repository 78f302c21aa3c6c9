//! The tables people write: a header line, then rows whose columns stand two or more spaces apart.

use super::sections::Section;

/// One row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row<'a> {
    /// Its line in the story.
    pub line: usize,
    pub cells: Vec<&'a str>,
    /// What stands behind ` # `.
    pub remark: Option<&'a str>,
}

/// The rows of a section; blank lines, comment lines and the header are passed over.
pub(super) fn rows(section: &Section) -> Vec<Row<'_>> {
    let lines = section.body.lines().enumerate();
    lines
        .map(|(at, line)| {
            let (row, remark) = split_remark(line);
            Row { line: section.line + 1 + at, cells: cells(row), remark }
        })
        .filter(|row| row.cells.first().is_some_and(|cell| !matches!(*cell, "FROM" | "FLOW")))
        .collect()
}

/// A row and the remark behind it; a line that starts with `#` is no row.
fn split_remark(line: &str) -> (&str, Option<&str>) {
    if line.trim_start().starts_with('#') {
        return ("", None);
    }
    line.split_once(" # ").map_or((line, None), |(row, remark)| (row, Some(remark.trim())))
}

fn cells(line: &str) -> Vec<&str> {
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}
