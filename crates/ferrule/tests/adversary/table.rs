//! What was tried, what should have become of it, and what did.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// How much is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// What takes a second or two each.
    Quick,
    /// Everything.
    Full,
}

impl Extent {
    pub fn wanted() -> Self {
        if std::env::var_os("ADVERSARY_FULL").is_some() { Self::Full } else { Self::Quick }
    }
}

/// What was seen, or what went wrong.
pub type Seen = Result<String, String>;

pub struct Table {
    extent: Extent,
    group: &'static str,
    rows: Vec<Row>,
}

struct Row {
    group: &'static str,
    attack: String,
    expected: &'static str,
    seen: Seen,
    seconds: f64,
}

impl Table {
    pub fn new(extent: Extent) -> Self {
        Self { extent, group: "", rows: Vec::new() }
    }

    /// What follows is of one kind.
    pub fn group(&mut self, group: &'static str) {
        self.group = group;
    }

    /// Whether everything is tried.
    pub fn is_full(&self) -> bool {
        self.extent == Extent::Full
    }

    /// Tries one attack. A failed assertion in it is what was seen.
    pub fn attack(
        &mut self,
        attack: impl Into<String>,
        expected: &'static str,
        try_it: impl FnOnce() -> Seen,
    ) {
        let began = Instant::now();
        let seen = catch_unwind(AssertUnwindSafe(try_it)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            Err(text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default())
        });
        let seconds = began.elapsed().as_secs_f64();
        self.rows.push(Row { group: self.group, attack: attack.into(), expected, seen, seconds });
    }

    pub fn print(&self) {
        println!("| who | attack | expected | seen | s |\n|---|---|---|---|---|");
        for Row { group, attack, expected, seen, seconds } in &self.rows {
            let seen = match seen {
                Ok(seen) => seen.clone(),
                Err(wrong) => format!("**{}**", wrong.lines().next().unwrap_or_default()),
            };
            println!("| {group} | {attack} | {expected} | {seen} | {seconds:.1} |");
        }
        println!("{} attacks, {} not as expected", self.rows.len(), self.wrong().count());
    }

    pub fn check(&self) {
        let wrong: Vec<String> = self
            .wrong()
            .map(|row| {
                format!(
                    "{}: {}: {}",
                    row.group,
                    row.attack,
                    row.seen.as_ref().err().cloned().unwrap_or_default()
                )
            })
            .collect();
        assert!(!self.rows.is_empty() && wrong.is_empty(), "{}", wrong.join("\n"));
    }

    fn wrong(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.seen.is_err())
    }
}
