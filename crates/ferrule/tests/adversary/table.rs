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

const NOT_TRIED: &str = "not tried: no ";

/// An attack that could not be made for want of a part of the machine: the row says which. Under `CI=true` that is as expected only
/// if the machine lacks it.
pub fn not_tried(part: &str, is_there: bool) -> Seen {
    let is_ci = std::env::var("CI").as_deref() == Ok("true");
    if is_there && is_ci {
        return Err(format!("not tried, though the machine has {part}"));
    }
    Ok(format!("{NOT_TRIED}{part} {}", if is_there { "that could be used" } else { "here" }))
}

pub struct Table {
    extent: Extent,
    /// Only attacks with this text in their name are tried, if it is set: `ADVERSARY_ONLY`.
    only: Option<String>,
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

impl Row {
    fn is_untried(&self) -> bool {
        self.seen.as_ref().is_ok_and(|seen| seen.starts_with(NOT_TRIED))
    }
}

impl Table {
    pub fn new(extent: Extent) -> Self {
        Self { extent, only: std::env::var("ADVERSARY_ONLY").ok(), group: "", rows: Vec::new() }
    }

    /// What follows is of one kind.
    pub fn group(&mut self, group: &'static str) {
        self.group = group;
    }

    /// Whether everything is tried.
    pub fn is_full(&self) -> bool {
        self.extent == Extent::Full
    }

    /// Whether this attack is tried at all.
    pub fn is_wanted(&self, attack: &str) -> bool {
        self.only.as_ref().is_none_or(|only| attack.contains(only.as_str()))
    }

    /// Tries one attack. A failed assertion in it is what was seen.
    pub fn attack(
        &mut self,
        attack: impl Into<String>,
        expected: &'static str,
        try_it: impl FnOnce() -> Seen,
    ) {
        let attack = attack.into();
        if !self.is_wanted(&attack) {
            return;
        }
        let began = Instant::now();
        let seen = catch_unwind(AssertUnwindSafe(try_it)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            Err(text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default())
        });
        let seconds = began.elapsed().as_secs_f64();
        self.rows.push(Row { group: self.group, attack, expected, seen, seconds });
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
        let not_tried = self.rows.iter().filter(|row| row.is_untried()).count();
        println!(
            "{} attacks, {} not as expected, {not_tried} not tried",
            self.rows.len(),
            self.wrong().count()
        );
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
