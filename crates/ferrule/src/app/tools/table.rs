//! Aligned tables and a little colour. Names come from users of the cluster, so what does not print is escaped.

use ferrule_config::go::escaped;

/// How much is printed, and whether in colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style {
    pub is_wide: bool,
    pub is_colored: bool,
}

/// A colour of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Color {
    Green,
    Red,
    Yellow,
}

impl Style {
    /// Text that is safe on a terminal, in a colour where there are any.
    pub(super) fn colored(self, color: Color, text: &str) -> String {
        let text = safe(text);
        let code = match color {
            Color::Green => 32,
            Color::Red => 31,
            Color::Yellow => 33,
        };
        if self.is_colored { format!("\x1b[{code}m{text}\x1b[0m") } else { text }
    }
}

/// Text on one line that a terminal does not act on.
pub(super) fn safe(text: &str) -> String {
    escaped(text, &[])
}

/// Rows of cells, each column as wide as its widest cell.
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(header: &[&str]) -> Self {
        Self { rows: vec![header.iter().map(ToString::to_string).collect()] }
    }

    pub(super) fn row<'a>(&mut self, cells: impl IntoIterator<Item = &'a str>) {
        self.rows.push(cells.into_iter().map(safe).collect());
    }

    /// The text, each line after this indent; nothing without a row.
    pub(super) fn text(&self, indent: &str) -> String {
        if self.rows.len() < 2 {
            return String::new();
        }
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells: Vec<String> =
                row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
            format!("{indent}{}", cells.join("  ")).trim_end().to_owned() + "\n"
        };
        self.rows.iter().map(line).collect()
    }
}
