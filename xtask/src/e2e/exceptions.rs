//! `tests/e2e/exceptions.txt`: specs that cannot run in this cluster or fail in it, with the cause.

use anyhow::{Context, Result, bail};

use super::Table;
use super::report::Outcome;

/// What happens to a spec of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It is not run.
    Skip,
    /// It is run, and known to fail.
    Fails,
}

#[derive(Debug)]
struct Exception {
    kind: Kind,
    /// The columns it is about; none for all.
    columns: Vec<String>,
    /// A part of the spec's name.
    text: String,
    reason: String,
}

/// The list.
#[derive(Debug)]
pub struct Exceptions(Vec<Exception>);

impl Exceptions {
    /// Reads lines of the form `skip | * | part of the name | reason`; `#` begins a comment.
    pub fn parse(text: &str) -> Result<Self> {
        let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let parse = |(number, line)| exception(line).with_context(|| format!("line {number}"));
        Ok(Self(lines.map(parse).collect::<Result<_>>()?))
    }

    /// A regular expression of all specs that are not to be run for a column.
    pub fn skip_expression(&self, column: &str) -> String {
        let skipped =
            self.0.iter().filter(|exception| exception.kind == Kind::Skip && exception.is_for(column));
        skipped.map(|exception| quoted(&exception.text)).collect::<Vec<_>>().join("|")
    }

    /// Writes the reasons into the table, where there are none yet.
    pub fn explain(&self, table: &mut Table) {
        for (name, outcomes) in &mut table.specs {
            for (column, outcome) in outcomes {
                let (reason, kind) = match outcome {
                    Outcome::Skipped { reason } => (reason, Kind::Skip),
                    Outcome::Failed { reason, .. } => (reason, Kind::Fails),
                    Outcome::Passed { .. } => continue,
                };
                let known = self.0.iter().find(|exception| exception.is_about(kind, column, name));
                if let Some(exception) = known {
                    *reason = Some(exception.reason.clone());
                }
            }
        }
    }
}

impl Exception {
    fn is_about(&self, kind: Kind, column: &str, name: &str) -> bool {
        self.is_for(column) && self.kind == kind && name.contains(&self.text)
    }

    fn is_for(&self, column: &str) -> bool {
        self.columns.is_empty() || self.columns.iter().any(|other| other == column)
    }
}

fn exception(line: &str) -> Result<Exception> {
    let parts: Vec<&str> = line.splitn(4, " | ").map(str::trim).collect();
    let [kind, columns, text, reason] = parts[..] else {
        bail!("is not `skip | * | part of the name | reason`")
    };
    let kind = match kind {
        "skip" => Kind::Skip,
        "fails" => Kind::Fails,
        other => bail!("begins with {other:?}, not with skip or fails"),
    };
    let columns =
        columns.split(',').map(|column| column.trim().to_owned()).filter(|column| column != "*").collect();
    Ok(Exception { kind, columns, text: text.to_owned(), reason: reason.to_owned() })
}

/// Text as a regular expression that matches it alone.
fn quoted(text: &str) -> String {
    let mut expression = String::new();
    for character in text.chars() {
        if r"\.+*?()|[]{}^$".contains(character) {
            expression.push('\\');
        }
        expression.push(character);
    }
    expression
}
