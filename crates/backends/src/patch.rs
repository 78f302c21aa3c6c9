//! What a sync would write, in the words of the tool that operators know.

use std::fmt;

/// The difference between a plan and what the kernel holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// One command or line each: `add element ip kube-proxy services { … }`, `-A KUBE-SERVICES …`.
    pub lines: Vec<String>,
}

impl Patch {
    /// Whether the kernel holds the plan.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

impl fmt::Display for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}
