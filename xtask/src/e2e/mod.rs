//! The table of `make e2e`: what became of each of upstream's specs with each proxy and mode.
//!
//! Reads the reports that the suite wrote (`PROXY-MODE.json` in a folder) and `tests/e2e/exceptions.txt`, writes `table.md` and
//! `table.json` beside them. It runs nothing; `scripts/e2e` does. Violated are: a spec that passes with kube-proxy and not with
//! Ferrule in the same mode, and whatever did not pass for no reason that the list names.

mod exceptions;
mod judge;
mod page;
mod report;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::Verdict;

use exceptions::Exceptions;
use report::Outcome;

/// Where the reasons are.
const EXCEPTIONS: &str = "tests/e2e/exceptions.txt";

/// Which specs were to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of them: whatever is absent is missing.
    AllSpecs,
    /// Those that a user named: others are reported as skipped, and are nobody's concern.
    SomeSpecs,
}

/// What became of one spec: by proxy and mode, as `ferrule-nftables`.
pub type Outcomes = BTreeMap<String, Outcome>;

/// All specs by name, each with what became of it.
#[derive(Debug, Default, Serialize)]
pub struct Table {
    /// Proxies with their modes, in the order of the columns.
    pub columns: Vec<String>,
    /// Specs by name.
    pub specs: BTreeMap<String, Outcomes>,
}

/// Writes the table of the reports in a folder, and prints what is wrong with it.
pub fn run(root: &Path, folder: &Path, extent: Extent) -> Result<Verdict> {
    let text = fs::read_to_string(root.join(EXCEPTIONS)).with_context(|| format!("reading {EXCEPTIONS}"))?;
    let exceptions = Exceptions::parse(&text).with_context(|| format!("reading {EXCEPTIONS}"))?;
    let mut table = read(folder)?;
    exceptions.explain(&mut table);
    if extent == Extent::SomeSpecs {
        table.forget_unexplained_skips();
    }
    let write = |name: &str, text: String| {
        fs::write(folder.join(name), text)
            .with_context(|| format!("writing {name} into {}", folder.display()))
    };
    write("table.json", serde_json::to_string_pretty(&table)?)?;
    write("table.md", page::render(&table))?;
    println!("{}", page::summary(&table));
    let mut findings = judge::findings(&table);
    if extent == Extent::AllSpecs {
        findings.extend(judge::absent(&table));
    }
    for finding in &findings {
        println!("{finding}");
    }
    Ok(if findings.is_empty() { Verdict::Clean } else { Verdict::Violated })
}

/// Prints the regular expression of specs that are not to be run for a column, for the suite's `--skip`.
pub fn print_skipped(root: &Path, column: &str) -> Result<Verdict> {
    let text = fs::read_to_string(root.join(EXCEPTIONS)).with_context(|| format!("reading {EXCEPTIONS}"))?;
    println!("{}", Exceptions::parse(&text)?.skip_expression(column));
    Ok(Verdict::Clean)
}

impl Table {
    /// Drops what was not asked for: the suite reports it as skipped and says no more.
    fn forget_unexplained_skips(&mut self) {
        for outcomes in self.specs.values_mut() {
            outcomes.retain(|_, outcome| *outcome != Outcome::Skipped { reason: None });
        }
        self.specs.retain(|_, outcomes| !outcomes.is_empty());
    }
}

fn read(folder: &Path) -> Result<Table> {
    let mut table = Table::default();
    for column in columns(folder)? {
        let path = folder.join(format!("{column}.json"));
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let specs = report::parse(&text).with_context(|| format!("reading {}", path.display()))?;
        for (name, outcome) in specs {
            table.specs.entry(name).or_default().insert(column.clone(), outcome);
        }
        table.columns.push(column);
    }
    Ok(table)
}

/// The columns in a folder, a mode's proxies side by side, kube-proxy first.
fn columns(folder: &Path) -> Result<Vec<String>> {
    let mut columns = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("reading the folder {}", folder.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some(column) =
            name.strip_suffix(".json").filter(|column| judge::proxy_and_mode(column).is_some())
        {
            columns.push(column.to_owned());
        }
    }
    if columns.is_empty() {
        bail!("there is no report such as ferrule-nftables.json in {}", folder.display());
    }
    columns.sort_by_key(|column| {
        let (proxy, mode) = judge::proxy_and_mode(column).unwrap_or_default();
        (judge::MODES.iter().position(|known| *known == mode), proxy != judge::PEER)
    });
    Ok(columns)
}
