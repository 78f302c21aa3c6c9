//! Counting, and the table at the end.

use std::collections::BTreeMap;
use std::process::ExitCode;

/// The kinds of things compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// Flags: names, types, defaults.
    Flags,
    /// Feature gates: known, settable.
    Gates,
    /// Accept or refuse.
    Verdicts,
    /// The file written, where both accept.
    Written,
    /// Whether the file was read leniently, where both accept.
    Warnings,
    /// The fields complained about, where both refuse in validation.
    Complaints,
}

/// What was found.
#[derive(Default)]
pub struct Report {
    counts: BTreeMap<Topic, Counts>,
    explained: Vec<String>,
    unexplained: Vec<String>,
}

#[derive(Default)]
struct Counts {
    compared: usize,
    explained: usize,
    unexplained: usize,
}

impl Report {
    /// Both do the same.
    pub fn same(&mut self, topic: Topic) {
        self.counts.entry(topic).or_default().compared += 1;
    }

    /// They differ; a reason makes that acceptable.
    pub fn differ(&mut self, topic: Topic, what: &str, reason: Option<&str>) {
        let counts = self.counts.entry(topic).or_default();
        counts.compared += 1;
        if let Some(reason) = reason {
            counts.explained += 1;
            self.explained.push(format!("{topic:?}: {what}\n    because {reason}"));
        } else {
            counts.unexplained += 1;
            self.unexplained.push(format!("{topic:?}: {what}"));
        }
    }

    /// A reason that explains nothing any more.
    pub fn stale(&mut self, what: &str) {
        self.unexplained.push(format!("a reason without a difference: {what}"));
    }

    /// Prints everything; the exit status says whether all is explained.
    pub fn finish(self) -> ExitCode {
        println!("Explained differences:");
        for line in &self.explained {
            println!("  {line}");
        }
        println!("\n{:10} {:>9} {:>10} {:>12}", "", "compared", "explained", "unexplained");
        for (topic, counts) in &self.counts {
            let name = format!("{topic:?}");
            println!("{name:10} {:>9} {:>10} {:>12}", counts.compared, counts.explained, counts.unexplained);
        }
        for line in &self.unexplained {
            println!("\nUNEXPLAINED {line}");
        }
        if self.unexplained.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
