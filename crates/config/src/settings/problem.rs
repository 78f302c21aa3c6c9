//! What is wrong with a configuration: one problem per field, all of them, in kube-proxy's wording of path and value.

use std::fmt;

use ferrule_plan::ProxyMode;

use super::origin::{Origin, written_as};
use crate::go::{GoDuration, quoted};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The path of the field, as kube-proxy names it.
    pub path: String,
    /// What is wrong, value included.
    pub complaint: String,
    /// What the user wrote there: a flag or a field of the file. Empty if unknown.
    pub written_as: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.complaint)?;
        if self.written_as.is_empty() { Ok(()) } else { write!(f, " ({})", self.written_as) }
    }
}

/// All that is wrong; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => one.fmt(f),
            many => {
                f.write_str("[")?;
                for (index, problem) in many.iter().enumerate() {
                    let comma = if index > 0 { ", " } else { "" };
                    write!(f, "{comma}{problem}")?;
                }
                f.write_str("]")
            }
        }
    }
}

impl std::error::Error for Problems {}

/// A value as a complaint shows it.
pub trait Shown {
    /// Its text.
    fn shown(&self) -> String;
}

impl Shown for str {
    fn shown(&self) -> String {
        quoted(self)
    }
}

impl Shown for i32 {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Shown for u32 {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Shown for GoDuration {
    fn shown(&self) -> String {
        quoted(&self.to_string())
    }
}

impl Shown for [String] {
    fn shown(&self) -> String {
        let texts: Vec<String> = self.iter().map(|text| quoted(text)).collect();
        format!("[{}]", texts.join(","))
    }
}

/// Gathers problems while checks go on.
#[derive(Debug, Default)]
pub struct Collector {
    problems: Vec<Problem>,
}

impl Collector {
    /// A value that cannot be.
    pub fn invalid(&mut self, path: impl Into<String>, value: &(impl Shown + ?Sized), reason: &str) {
        self.add(path.into(), format!("Invalid value: {}: {reason}", value.shown()));
    }

    /// A word outside the few that are allowed.
    pub fn unsupported(&mut self, path: impl Into<String>, value: &str, supported: &[&str]) {
        let list: Vec<String> = supported.iter().map(|word| quoted(word)).collect();
        let complaint =
            format!("Unsupported value: {}: supported values: {}", quoted(value), list.join(", "));
        self.add(path.into(), complaint);
    }

    /// A value that may appear once.
    pub fn duplicate(&mut self, path: impl Into<String>, value: &str) {
        self.add(path.into(), format!("Duplicate value: {}", quoted(value)));
    }

    /// A field that may not be used as things are.
    pub fn forbidden(&mut self, path: impl Into<String>, reason: &str) {
        self.add(path.into(), format!("Forbidden: {reason}"));
    }

    /// A value that must be there.
    pub fn required(&mut self, path: impl Into<String>, reason: &str) {
        self.add(path.into(), format!("Required value: {reason}"));
    }

    /// The result, if nothing was wrong. Problems with the same text count once.
    pub fn finish<T>(mut self, result: T, origin: Origin, mode: ProxyMode) -> Result<T, Problems> {
        if self.problems.is_empty() {
            return Ok(result);
        }
        for problem in &mut self.problems {
            problem.written_as = written_as(&problem.path, origin, mode).unwrap_or_default();
        }
        Err(Problems(self.problems))
    }

    fn add(&mut self, path: String, complaint: String) {
        let problem = Problem { path, complaint, written_as: String::new() };
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}
