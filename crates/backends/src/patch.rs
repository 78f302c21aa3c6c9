//! What a sync would write, in the words of the tool that operators know.

use std::fmt;

/// The difference between a plan and what the kernel holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// One command or line each: `add element ip kube-proxy services { … }`, `-A KUBE-SERVICES …`.
    pub lines: Vec<String>,
}

impl Patch {
    /// The same without the lines that have this name in them. Nothing at all if only what frames a table is left.
    #[must_use]
    pub(crate) fn without_lines_of(self, name: &str) -> Self {
        let lines: Vec<String> = self.lines.into_iter().filter(|line| !line.contains(name)).collect();
        let is_frame = |line: &String| line.starts_with(['*', '#']) || line == "COMMIT";
        if lines.iter().all(is_frame) { Self::default() } else { Self { lines } }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_name_go_and_a_table_without_others_too() {
        let patch = |lines: &[&str]| Patch { lines: lines.iter().map(|line| (*line).to_owned()).collect() };
        let localnet = ["*mangle", ":OURS - [0:0]", "-A PREROUTING -j OURS", "COMMIT"];
        assert!(patch(&localnet).without_lines_of("OURS").is_empty());
        let more = patch(&[&localnet[..], &["*nat", "-A KUBE-SERVICES -j KUBE-SVC-A", "COMMIT"]].concat());
        let left = more.without_lines_of("OURS").lines;
        assert!(left.contains(&"-A KUBE-SERVICES -j KUBE-SVC-A".to_owned()) && left.len() == 5, "{left:?}");
    }
}
